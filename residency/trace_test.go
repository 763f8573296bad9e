package residency

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	size := func(p Part) int64 { return 10 + int64(p.ID) }
	for want, o := range map[string]Options{
		"a ledger of no layers":                         {Limit: 100, Parts: 4, Bytes: size},
		"0 expert parts":                                {Limit: 100, Layers: []int{0}, Bytes: size},
		"70000 expert parts":                            {Limit: 100, Layers: []int{0}, Parts: 70000, Bytes: size},
		"layer 3 twice":                                 {Limit: 100, Layers: []int{3, 3}, Parts: 4, Bytes: size},
		"layer is -1":                                   {Limit: 100, Layers: []int{-1}, Parts: 4, Bytes: size},
		"layer is 5000":                                 {Limit: 100, Layers: []int{5000}, Parts: 4, Bytes: size},
		"part 0 of layer 1 has 0 bytes":                 {Limit: 100, Layers: []int{1}, Parts: 4, Bytes: func(Part) int64 { return 0 }},
		"limit of 12 bytes has no room for even one":    {Limit: 12, Layers: []int{1}, Parts: 4, Bytes: size},
		"part 3 of layer 1, has 13 bytes":               {Limit: 12, Layers: []int{1}, Parts: 4, Bytes: size},
		"100 layers with 65536 expert parts each, vali": {Limit: 100, Layers: make([]int, 100), Parts: 65536, Bytes: size},
	} {
		_, err := New(o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
		var limit *LimitError
		if errors.As(err, &limit) != strings.Contains(want, "12 bytes") && !strings.Contains(want, "13 bytes") {
			t.Errorf("%q is a LimitError: %v", err, limit)
		}
	}
}

const goodTrace = `{"moepool_trace":1,"worker":"a","limit":40,"policy":"lru","layers":[4,6],"parts":4,"bytes":[[10,12],[10]]}
{"op":"seed","profile":[[4,3,0.25]]}
{"op":"insert","layer":4,"part":3}
{"op":"work","layer":4,"parts":[1,2]}
{"op":"work","layer":6,"parts":[0,3],"filled":[0],"cut":[[4,0],[6,1,2]]}
{"op":"prefetch","layer":6,"part":2}
{"op":"remove","layer":4,"part":2}
{"op":"end","requests":2,"hits":0,"misses":4,"miss_bytes":42,"evictions":2,"prefetched":1,"prefetch_used":0,"hint_bytes":10,"ghost_bytes":62}
`

// TestTrace reads a trace as it is written here, plays it, and records it anew.
func TestTrace(t *testing.T) {
	t.Parallel()
	trace, err := ReadTrace(strings.NewReader(goodTrace))
	if err != nil {
		t.Fatal(err)
	}
	if trace.Worker != "a" || trace.Limit != 40 || trace.Policy != "lru" || trace.Bytes() != 84 || trace.Requested() != 72 {
		t.Errorf("the trace is %+v with %d bytes, %d requested", trace, trace.Bytes(), trace.Requested())
	}
	got, err := trace.Replay(lru{}, trace.Limit)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*trace.Recorded, got); diff != "" {
		t.Errorf("the replay (-recorded +replayed):\n%s", diff)
	}

	l, err := trace.ledger(lru{}, trace.Limit)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	r, err := NewRecorder(&file, "a", l)
	if err != nil {
		t.Fatal(err)
	}
	a := NewAccount(l, r)
	a.Seed([]Heat{{Part{4, 3}, 0.25}})
	a.Insert(Part{4, 3})
	a.Request(4, []uint32{1, 2})
	a.Work(6, []uint32{0, 3}, []uint32{0}, []LayerParts{{4, []uint32{0}}, {6, []uint32{1, 2}}})
	a.Prefetch(Part{6, 2})
	a.Remove(Part{4, 2})
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(goodTrace, file.String()); diff != "" {
		t.Errorf("the trace (-want +got):\n%s", diff)
	}
}

// TestTornTrace: the worker was killed while it wrote.
func TestTornTrace(t *testing.T) {
	t.Parallel()
	trace, err := ReadTrace(strings.NewReader(goodTrace[:strings.Index(goodTrace, `"filled"`)]))
	if err != nil || trace.Recorded != nil {
		t.Fatalf("%+v, %v", trace, err)
	}
	got, err := trace.Replay(lru{}, trace.Limit)
	if err != nil || got.Requests != 1 || got.Misses != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTraceRefuses(t *testing.T) {
	t.Parallel()
	head := goodTrace[:strings.Index(goodTrace, "\n")+1]
	for text, want := range map[string]string{
		"":                           "not a residency trace",
		"hello\n":                    "not a residency trace",
		"{}\n":                       `should begin with {"moepool_trace":1)`,
		`{"moepool_trace":7}` + "\n": "version 7, this program reads version 1",
		strings.Replace(head, "[[10,12],[10]]", "[[10]]", 1):              "2 layers and sizes of 1",
		strings.Replace(head, "[10,12]", "[10,12,14]", 1):                 "3 sizes for the 4 parts of layer 4",
		strings.Replace(head, "[10,12]", "[10,-1]", 1):                    "has -1 bytes",
		strings.Replace(head, `"limit":40`, `"limit":4`, 1):               "limit of 4 bytes",
		strings.Replace(head, `"parts":4`, `"parts":4000000000`, 1):       "4000000000 expert parts",
		head + `{"op":"work","layer":5,"parts":[1]}` + "\n":               "line 2 of the residency trace: layer 5 is none",
		head + `{"op":"work","layer":4,"parts":[1,4]}` + "\n":             "layer 4 has no part 4, valid are 0 to 3",
		head + `{"op":"work","layer":4,"parts":[1,1]}` + "\n":             "not in ascending order: 1 after 1",
		head + `{"op":"work","layer":4,"parts":[1],"cut":[[]]}` + "\n":    "a list without a layer",
		head + `{"op":"work","layer":4,"parts":[1],"cut":[[6,9]]}` + "\n": "layer 6 has no part 9",
		head + `{"op":"insert","layer":4,"part":8}` + "\n":                "no part 8",
		head + `{"op":"seed","profile":[[4,-1,1]]}` + "\n":                "part -1 of layer 4",
		head + `{"op":"burn"}` + "\n":                                     `unknown op "burn"`,
		head + `{"op":"work","color":1}` + "\n":                           "unknown field",
		goodTrace + `{"op":"remove","layer":4,"part":2}` + "\n":           "line 9 of the residency trace: it comes after the end",
	} {
		if _, err := ReadTrace(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add([]byte(goodTrace))
	f.Fuzz(func(t *testing.T, text []byte) {
		trace, err := ReadTrace(bytes.NewReader(text))
		if err != nil {
			return
		}
		for _, name := range Names {
			p, err := Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			got, err := trace.Replay(p, trace.Limit)
			if err != nil {
				t.Fatal(err)
			}
			bound, err := trace.Optimum(trace.Limit)
			if err != nil || bound.Hits < got.Hits {
				t.Fatalf("%v: the bound is %+v, %s got %+v", err, bound, name, got)
			}
		}
	})
}

// errorAfter fails after some bytes.
type errorAfter int

var errFull = errors.New("the disk is full")

func (e *errorAfter) Write(p []byte) (int, error) {
	if *e -= errorAfter(len(p)); *e < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestRecorderFails: what can't be written ends the recording, not the ledger.
func TestRecorderFails(t *testing.T) {
	t.Parallel()
	l := newTestLedger(t, "lru", 40, 2, 8)
	w := errorAfter(1000)
	r, err := NewRecorder(&w, "w", l)
	if err != nil {
		t.Fatal(err)
	}
	a := NewAccount(l, r)
	for range 10_000 {
		if out := a.Request(0, []uint32{1}); len(out.Hits)+len(out.Waves) != 1 {
			t.Fatal(out)
		}
	}
	if err := r.Err(); !errors.Is(err, errFull) {
		t.Errorf("the recorder says %v", err)
	}
	if err := a.Close(); !errors.Is(err, errFull) {
		t.Errorf("closing says %v", err)
	}
	none := errorAfter(10)
	if _, err := NewRecorder(&none, "w", l); !errors.Is(err, errFull) {
		t.Errorf("a recorder that can't write its header: %v", err)
	}
}
