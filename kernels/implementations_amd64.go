//go:build amd64 && !purego

package kernels

// implementations are all of this build, best first.
var implementations = []*Set{&amx, &avx512, &avxvnni, &avx2, &generic}
