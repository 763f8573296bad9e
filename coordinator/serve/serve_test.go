package serve

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/placement"
	_ "github.com/moepool/moepool/internal/propertyseed"
	"github.com/moepool/moepool/transport"
)

// read is the inverse of ranges.
func read(t interface{ Fatalf(string, ...any) }, text string) (numbers []uint32) {
	if text == "" {
		return nil
	}
	for _, part := range strings.Split(text, ",") {
		from, to, is := strings.Cut(part, "-")
		if !is {
			to = from
		}
		a, errA := strconv.ParseUint(from, 10, 32)
		b, errB := strconv.ParseUint(to, 10, 32)
		if errA != nil || errB != nil || is && a >= b {
			t.Fatalf("%q in %q", part, text)
		}
		for n := a; n <= b; n++ {
			numbers = append(numbers, uint32(n))
		}
	}
	return numbers
}

func TestRanges(t *testing.T) {
	t.Parallel()
	for want, numbers := range map[string][]uint32{"": nil, "7": {7}, "0-3,8": {0, 1, 2, 3, 8}, "1-2,4,6-7": {1, 2, 4, 6, 7}, "4294967294-4294967295": {1<<32 - 2, 1<<32 - 1}} {
		if got := ranges(numbers); got != want {
			t.Errorf("%v: %q, want %q", numbers, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfNDistinct(rapid.Uint32Range(0, 60), 0, 40, rapid.ID[uint32]).Draw(t, "numbers")
		slices.Sort(numbers)
		if got := read(t, ranges(numbers)); !slices.Equal(got, numbers) {
			t.Fatalf("%v became %q, read as %v", numbers, ranges(numbers), got)
		}
	})
}

// TestDescribe: the shown placement is the plan, primaries and replicas told apart.
func TestDescribe(t *testing.T) {
	t.Parallel()
	plan := &placement.Plan{
		Epoch:  4,
		Owned:  map[string]map[int][]uint32{"a": {1: {0, 1}, 3: {0}}, "b": {1: {1, 2}, 3: {1, 2}}, "idle": {}},
		Owners: map[int][][]string{1: {{"a"}, {"b", "a"}, {"b"}}, 3: {{"a"}, {"b"}, {"b"}}},
	}
	p := describe(plan)
	if p.Epoch != 4 || !slices.Equal(p.Layers, []int{1, 3}) || len(p.Workers) != 3 {
		t.Fatalf("%+v", p)
	}
	a, b, idle := p.Workers[0], p.Workers[1], p.Workers[2]
	if a.ID != "a" || a.Parts != 3 || a.Primaries != 2 || a.Owned[1] != "0-1" || a.Owned[3] != "0" {
		t.Errorf("a: %+v", a)
	}
	if b.ID != "b" || b.Parts != 4 || b.Primaries != 4 || b.Owned[1] != "1-2" {
		t.Errorf("b: %+v", b)
	}
	if idle.ID != "idle" || idle.Parts != 0 || idle.Primaries != 0 || len(idle.Owned) != 0 {
		t.Errorf("idle: %+v", idle)
	}
}

func TestFailuresAreTheLatest(t *testing.T) {
	t.Parallel()
	var f failures
	if list := f.list(); list == nil || len(list) != 0 {
		t.Fatalf("%v: JSON wants a list", list)
	}
	for i := range failuresKept + 5 {
		f.add(time.Unix(int64(i), 0), fmt.Sprint(i, strings.Repeat("x", 2*failureText)))
	}
	list := f.list()
	if len(list) != failuresKept || list[0].Time != time.Unix(5, 0) || !strings.HasPrefix(list[failuresKept-1].Error, "24") || len(list[0].Error) != failureText {
		t.Errorf("%d kept, the first of %v", len(list), list[0].Time)
	}
}

// TestRequest: everything of a request reaches the coordinator; its budget keeps the coordinator's switches, and a malformed one is refused in words.
func TestRequest(t *testing.T) {
	t.Parallel()
	own := budget.Policy{Count: 9, Prefill: true}
	q := &transport.GenerateRequest{Prompt: "p", Generated: []int32{4, 5}, MaxTokens: 7, Temperature: 0.5, TopK: 3, TopP: 0.9, MinP: 0.1, Seed: 11,
		Stop: []string{"x"}, IgnoreEOS: true, ExpertBudget: "2,mass=0.1,fill=9", Messages: []transport.ChatMessage{{Role: "user", Content: "hi"}}}
	r, err := request(q, 64, own)
	if err != nil {
		t.Fatal(err)
	}
	if r.Budget == nil || *r.Budget != (budget.Policy{Count: 2, Mass: 0.1, Fill: 9, Prefill: true}) {
		t.Errorf("budget %+v", r.Budget)
	}
	if r.Prompt.Raw != "p" || !slices.Equal(r.Generated, q.Generated) || r.MaxTokens != 7 || r.PrefillChunk != 64 || !r.IgnoreEOS || r.Stop[0] != "x" ||
		r.Sampling.Seed != 11 || r.Sampling.Temperature != 0.5 || r.Sampling.TopK != 3 || r.Sampling.TopP != 0.9 || r.Sampling.MinP != 0.1 ||
		r.Prompt.Messages[0].Content != "hi" {
		t.Errorf("%+v", r)
	}
	q.ExpertBudget = ""
	if r, err := request(q, 0, own); err != nil || r.Budget != nil {
		t.Errorf("without a budget: %+v, %v", r.Budget, err)
	}
	q.ExpertBudget = "most"
	if _, err := request(q, 0, own); err == nil || !strings.Contains(err.Error(), "most") || !strings.Contains(err.Error(), "valid are") {
		t.Errorf("budget \"most\": %v", err)
	}
}

// TestElsewhere: which errors another coordinator may do better with.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		errors.New("worker w1 is gone"):                                                         false,
		&transport.DeadlineError{Timeout: time.Second}:                                          false,
		transport.ErrClientCanceled:                                                             false,
		&coordinator.NotLeadingError{Leader: "b"}:                                               true,
		fmt.Errorf("layer 3: %w", transport.ErrStopping):                                        true,
		fmt.Errorf("layer 3: %w", &transport.RemoteError{Code: transport.CodeStaleTerm}):        true,
		fmt.Errorf("layer 3: %w", &transport.RemoteError{Code: transport.CodeInternal}):         false,
		fmt.Errorf("%w any more: %w", coordinator.ErrNotLeading, errors.New("stopped by TERM")): true,
	} {
		if got := elsewhere(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}
