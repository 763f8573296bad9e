# Everything here needs Go only; CGO is off on purpose.
export CGO_ENABLED := 0
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo development)

.PHONY: build demo test vet clean

build:
	go build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/moepool ./cmd/moepool

demo: build
	./bin/moepool run --max-tokens 64 "And it came to pass in those days, that"

test:
	go test -timeout 30m ./...
	@echo "Skipped here, for lack of what they need (.ci/run has it all):"
	@go test -v -count=1 -run 'VM|NUMA|Carved|TestFeatures' ./arena ./kernels ./numa ./worker ./cmd/moepool 2>&1 | grep -E 'SKIP' | sort -u || echo "  nothing"

vet:
	go vet ./...
	go run honnef.co/go/tools/cmd/staticcheck@$(shell cat .ci/staticcheck-version) ./...

clean:
	rm -rf bin
