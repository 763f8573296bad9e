package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"
)

// messageKind is one wire message for tests: how to draw a valid one, and an empty one to decode into.
type messageKind struct {
	name  string
	kind  kind
	draw  func(t *rapid.T) message
	empty func() message
}

var messageKinds = []messageKind{
	{"work", kindWork, func(t *rapid.T) message { return &workFrame{drawText(t, "target"), drawWork(t)} },
		func() message { return &workFrame{work: &Work{}} }},
	{"result", kindResult, func(t *rapid.T) message { return drawResult(t) }, func() message { return &Result{} }},
	{"progress", kindProgress, func(t *rapid.T) message { return &progress{drawID(t)} }, func() message { return &progress{} }},
	{"error", kindError, func(t *rapid.T) message {
		return &failure{drawID(t), ErrorCode(drawText(t, "code")), drawText(t, "message")}
	},
		func() message { return &failure{} }},
	{"assign", kindAssign, func(t *rapid.T) message { return drawControl(t, drawAssign(t)) }, func() message { return &control{message: &Assign{}} }},
	{"refuse", kindRefuse, func(t *rapid.T) message { return drawControl(t, &Refuse{drawText(t, "reason")}) },
		func() message { return &control{message: &Refuse{}} }},
	{"drain", kindDrain, func(t *rapid.T) message { return drawControl(t, &Drain{}) }, func() message { return &control{message: &Drain{}} }},
	{"ack", kindAck, func(t *rapid.T) message {
		return &ack{rapid.Uint64().Draw(t, "number"), ErrorCode(drawText(t, "code")), drawText(t, "message")}
	}, func() message { return &ack{} }},
	{"beat", kindBeat, func(t *rapid.T) message { return drawBeat(t) }, func() message { return &Beat{} }},
	{"coordinator", kindCoordinator, func(t *rapid.T) message {
		return &CoordinatorBeat{drawText(t, "instance"), rapid.Uint64().Draw(t, "term"), rapid.Uint64().Draw(t, "epoch"), drawIdentity(t)}
	}, func() message { return &CoordinatorBeat{} }},
	{"generate", kindGenerate, func(t *rapid.T) message { return drawGenerateRequest(t) }, func() message { return &GenerateRequest{} }},
	{"event", kindEvent, func(t *rapid.T) message { return &eventFrame{rapid.Uint64().Draw(t, "number"), drawEvent(t)} },
		func() message { return &eventFrame{event: &GenerateEvent{}} }},
	{"alive", kindAlive, drawEmpty, func() message { return empty{} }},
	{"cancel", kindCancel, drawEmpty, func() message { return empty{} }},
	{"probe", kindProbe, drawEmpty, func() message { return empty{} }},
	{"hello", kindHello, func(t *rapid.T) message {
		return &hello{drawText(t, "secret"), drawText(t, "worker"), drawText(t, "instance"), drawText(t, "reply")}
	}, func() message { return &hello{} }},
	{"part", kindPart, drawPart, func() message { return &part{} }},
}

func drawID(t *rapid.T) workID {
	return workID{rapid.Uint64().Draw(t, "request"), rapid.Uint32().Draw(t, "attempt")}
}

func drawEmpty(t *rapid.T) message {
	rapid.Bool().Draw(t, "nothing") // rapid wants something drawn
	return empty{}
}

func drawControl(t *rapid.T, m message) message {
	return &control{rapid.Uint64().Draw(t, "number"), drawText(t, "target"), m}
}

func drawPart(t *rapid.T) message {
	p := &part{count: rapid.IntRange(1, 1000).Draw(t, "count"), total: rapid.IntRange(1, MaxMessage).Draw(t, "total")}
	p.index = rapid.IntRange(0, p.count-1).Draw(t, "index")
	p.data = rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data")
	copy(p.id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
	return p
}

// compareMessages looks at all fields; an empty slice equals nil, and floats are compared by their bits. Long slices are compared
// at once, which is much faster.
var compareMessages = cmp.Options{
	cmp.AllowUnexported(workFrame{}, progress{}, hello{}, failure{}, workID{}, control{}, ack{}, eventFrame{}, part{}, empty{}),
	cmpopts.EquateEmpty(),
	bulk[int8](), bulk[byte](), bulk[uint32](), bulk[int32](), bulk[int64](), bulk[float32](), bulk[int](),
	cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
	cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
}

// bulk compares slices that are not empty by their memory.
func bulk[T int | element]() cmp.Option {
	return cmp.FilterValues(func(a, b []T) bool { return len(a) > 0 && len(b) > 0 }, cmp.Comparer(func(a, b []T) bool {
		size := int(unsafe.Sizeof(a[0]))
		memory := func(v []T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), len(v)*size) }
		return bytes.Equal(memory(a), memory(b))
	}))
}

// TestRoundTrip: what is decoded is what was encoded, into fresh memory and into memory that held something else before, and any
// msgpack library can read it.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, k := range messageKinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				var w, r wire
				reused := k.empty()
				for range 2 {
					m := k.draw(t)
					if err := encode(&w, k.kind, m); err != nil {
						t.Fatal(err)
					}
					for _, into := range []message{k.empty(), reused} {
						got, err := open(&r, w.buf)
						if err != nil || got != k.kind {
							t.Fatalf("kind %d, error %v", got, err)
						}
						if err := decode(&r, into); err != nil {
							t.Fatal(err)
						}
						if d := cmp.Diff(m, into, compareMessages); d != "" {
							t.Fatal(d)
						}
					}
					var generic []any
					if err := msgpack.Unmarshal(w.buf, &generic); err != nil || len(generic) != 3 {
						t.Fatalf("%d fields, error %v", len(generic), err)
					}
				}
			})
		})
	}
}

// TestSumWidth: rows that fit take 4 bytes per element, others 8.
func TestSumWidth(t *testing.T) {
	t.Parallel()
	const hidden = 1000
	size := func(sum ...int64) int {
		m := &Result{Rows: len(sum), Hidden: hidden, Sum: make([]int64, hidden*len(sum))}
		for row, v := range sum {
			m.Sum[row*hidden+hidden-1] = v
		}
		var w wire
		if err := encode(&w, kindResult, m); err != nil {
			t.Fatal(err)
		}
		return len(w.buf)
	}
	narrow := size(0)
	for _, c := range []struct {
		sum  int64
		wide bool
	}{{1<<31 - 1, false}, {-1 << 31, false}, {1 << 31, true}, {-1<<31 - 1, true}, {math.MinInt64, true}, {math.MaxInt64, true}} {
		if got := size(c.sum) - narrow; got != 0 != c.wide {
			t.Errorf("%d takes %d bytes more", c.sum, got)
		}
	}
	if got, want := size(1, 1<<40, 2)-size(1, 2, 3), 4*hidden; got != want {
		t.Errorf("one wide row of three takes %d bytes more, want %d", got, want)
	}
}

// TestMalformed: messages that a correct sender can't send.
func TestMalformed(t *testing.T) {
	t.Parallel()
	change := func(f func(w *Work)) func() (kind, message) {
		return func() (kind, message) {
			w := testWork(7, 3, 10, true)
			f(w)
			return kindWork, &workFrame{work: w}
		}
	}
	result := func(f func(r *Result)) func() (kind, message) {
		return func() (kind, message) {
			r := &Result{Rows: 1, Hidden: 2, Sum: make([]int64, 2), Parts: []uint32{1, 2}, Hits: []byte{0}}
			f(r)
			return kindResult, r
		}
	}
	beat := func(f func(b *Beat)) func() (kind, message) {
		return func() (kind, message) {
			b := &Beat{}
			f(b)
			return kindBeat, b
		}
	}
	for name, c := range map[string]struct {
		message func() (kind, message)
		field   string
	}{
		"no rows":          {change(func(w *Work) { w.Rows = 0 }), "rows"},
		"too many rows":    {change(func(w *Work) { w.Rows = MaxRows + 1 }), "rows"},
		"too wide":         {change(func(w *Work) { w.Hidden = MaxHidden + 1 }), "hidden"},
		"a code too many":  {change(func(w *Work) { w.Codes = append(w.Codes, 1) }), "codes"},
		"values and codes": {change(func(w *Work) { w.Values = []float32{1} }), "values"},
		"scale missing":    {change(func(w *Work) { w.Scales = w.Scales[1:] }), "scales"},
		"code -128":        {change(func(w *Work) { w.Codes[5] = -128 }), "codes"},
		"offsets short":    {change(func(w *Work) { w.Offsets = w.Offsets[1:] }), "offsets"},
		"offsets shifted":  {change(func(w *Work) { w.Offsets[0] = 1 }), "offsets"},
		"offsets beyond":   {change(func(w *Work) { w.Offsets[1] = 1 << 31 }), "offsets"},
		"offsets fall":     {change(func(w *Work) { w.Offsets[1], w.Offsets[2] = w.Offsets[2], w.Offsets[1] }), "offsets"},
		"parts not sorted": {change(func(w *Work) { w.Parts[1], w.Parts[2] = w.Parts[2], w.Parts[1] }), "parts"},
		"part twice":       {change(func(w *Work) { w.Parts[2] = w.Parts[1] }), "parts"},
		"part too high":    {change(func(w *Work) { w.Parts[len(w.Parts)-1] = MaxLayerParts }), "parts"},
		"weight missing":   {change(func(w *Work) { w.Weights = w.Weights[1:] }), "weights"},
		"cut layer":        {change(func(w *Work) { w.Cut = []LayerParts{{Layer: MaxLayers + 1}} }), "cut"},
		"cut twice":        {change(func(w *Work) { w.Cut = []LayerParts{{}, {Parts: []uint32{4, 4}}} }), "cut"},
		"too many cuts":    {change(func(w *Work) { w.Cut = make([]LayerParts, MaxLayers+1) }), "cut"},
		"filled fall":      {change(func(w *Work) { w.Filled = []uint32{2, 1} }), "filled"},
		"filled too high":  {change(func(w *Work) { w.Filled = []uint32{MaxLayerParts} }), "filled"},
		"hint part":        {change(func(w *Work) { w.Hint.Parts = []uint32{2, MaxLayerParts} }), "hint"},
		"hint layer":       {change(func(w *Work) { w.Hint.Layer = -1 }), "hint"},
		"layer":            {change(func(w *Work) { w.Layer = -1 }), "layer"},
		"sum short":        {result(func(r *Result) { r.Sum = r.Sum[1:] }), "sum"},
		"row error":        {result(func(r *Result) { r.RowErrors = []uint8{3} }), "row errors"},
		"row errors":       {result(func(r *Result) { r.RowErrors = []uint8{1, 1} }), "row errors"},
		"hits":             {result(func(r *Result) { r.Hits = []byte{1, 2} }), "hits"},
		"result parts":     {result(func(r *Result) { r.Parts = []uint32{2, 2} }), "parts"},
		"too many epochs":  {beat(func(b *Beat) { b.Serves = []uint64{1, 2, 3, 4} }), "serves"},
		"epoch twice":      {beat(func(b *Beat) { b.Serves = []uint64{2, 2} }), "serves"},
		"layer twice":      {beat(func(b *Beat) { b.LayerTimes = []LayerTime{{Layer: 1}, {Layer: 1}} }), "layer times"},
		"negative time":    {beat(func(b *Beat) { b.LayerTimes = []LayerTime{{Nanoseconds: -1}} }), "nanoseconds"},
		"negative queue":   {beat(func(b *Beat) { b.Queue = -1 }), "queue"},
		"negative misses":  {result(func(r *Result) { r.MissBytes = -1 }), "miss bytes"},
		"negative ghost":   {result(func(r *Result) { r.GhostBytes = -2 }), "ghost bytes"},
		"negative faults":  {result(func(r *Result) { r.MajorFaults = -1 }), "major faults"},
		"arrived":          {result(func(r *Result) { r.Arrived = []LayerParts{{Parts: []uint32{MaxLayerParts}}} }), "arrived"},
		"evicted":          {result(func(r *Result) { r.Evicted = []LayerParts{{Parts: []uint32{1, 0}}} }), "evicted"},
		"negative limit":   {beat(func(b *Beat) { b.Residency.Limit = -1 }), "limit"},
		"ghost report":     {beat(func(b *Beat) { b.Residency.GhostBytes = -2 }), "ghost bytes"},
		"long policy":      {beat(func(b *Beat) { b.Residency.Eviction = strings.Repeat("x", maxText+1) }), "eviction"},
		"negative read":    {beat(func(b *Beat) { b.LayerTimes = []LayerTime{{BytesRead: -1}} }), "bytes read"},
		"negative bytes":   {result(func(r *Result) { r.BytesRead = -1 }), "bytes read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w wire
			k, m := c.message()
			err := encode(&w, k, m)
			var malformed *malformedError
			if !errors.As(err, &malformed) || !strings.HasPrefix(err.Error(), c.field+":") {
				t.Fatalf("the sender's error is %v, want one of %s", err, c.field)
			}
		})
	}
}

// TestTruncatedAndChanged: every prefix of a valid frame is refused, and no changed byte does harm.
func TestTruncatedAndChanged(t *testing.T) {
	t.Parallel()
	for _, k := range messageKinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			var w wire
			if err := encode(&w, k.kind, rapid.Custom(k.draw).Example(3)); err != nil {
				t.Fatal(err)
			}
			for n := range w.buf {
				if _, err := decodeAny(w.buf[:n]); err == nil {
					t.Fatalf("%d of %d bytes were taken", n, len(w.buf))
				}
			}
			if _, err := decodeAny(append(bytes.Clone(w.buf), 0)); err == nil {
				t.Fatal("a byte too many was taken")
			}
			for n := range w.buf {
				for _, b := range []byte{0, 0x7f, 0x80, 0xff, 0xdd, 0xc6, w.buf[n] ^ 1, w.buf[n] ^ 0x80} {
					changed := bytes.Clone(w.buf)
					changed[n] = b
					decodeAny(changed) //nolint:errcheck // some changes are valid
				}
			}
		})
	}
}

// TestHostileFrames are the reports of FACTS §4: five bytes that ask for gigabytes. Not parallel: it measures allocation.
func TestHostileFrames(t *testing.T) {
	for _, text := range []string{
		"", "c1", "dd ff ff ff ff", "93 VV 02 dd ff ff ff ff", "93 VV 0a dd ff ff ff ff", "93 VV 03 c6 ff ff ff ff", "93 VV 02 9f 01 02 db ff ff ff ff",
		"93 VV 06 93 02 a0 95 a0 01 01 96 01 a0 a0 a0 01 01 dd 7f ff ff ff", "93 WW 02 90", "93 VV 63 90", "94 VV 02 90 90", "df ff ff ff ff", "93 ff 02 90",
	} {
		frame := fromHex(t, text)
		var err error
		if allocated := allocatedBy(func() { _, err = decodeAny(frame) }); err == nil || allocated > 8<<10 {
			t.Errorf("%s: error %v, %d bytes allocated", text, err, allocated)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	var w wire
	if err := encode(&w, kindWork, &workFrame{work: testWork(1, 1, 4, true)}); err != nil {
		t.Fatal(err)
	}
	w.buf[1] = ProtocolVersion + 1
	k, err := open(&wire{}, w.buf)
	var version *versionError
	if !errors.As(err, &version) || k != kindWork || code(err) != CodeVersion {
		t.Fatalf("kind %d, error %v", k, err)
	}
	if err.Error() != fmt.Sprintf("protocol version %d here, %d in the message", ProtocolVersion, ProtocolVersion+1) {
		t.Fatal(err)
	}
}

// TestBigEndian: the byte order of the wire is the one that other hosts produce by swapping.
func TestBigEndian(t *testing.T) {
	t.Parallel()
	b := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 0x01020304), 0x05060708)
	reverseElements(b, 4)
	if want := []byte{1, 2, 3, 4, 5, 6, 7, 8}; !bytes.Equal(b, want) {
		t.Fatalf("%x", b)
	}
	var w wire
	v := []uint32{0x01020304}
	tensor(&w, &v, "v", 1)
	if want := []byte{0xc4, 4, 4, 3, 2, 1}; !bytes.Equal(w.buf, want) {
		t.Fatalf("%x", w.buf)
	}
}

func TestMismatch(t *testing.T) {
	t.Parallel()
	a := Identity{Protocol: 1, Build: "v1", ModelDigest: "d", Format: "q8", Parts: 2, Layout: 1}
	if why := a.Mismatch("coordinator", a, "worker w0"); why != "" {
		t.Fatal(why)
	}
	for want, change := range map[string]func(*Identity){
		"protocol: coordinator 1 (build v1), worker w0 2 (build v1)": func(b *Identity) { b.Protocol = 2 },
		"model digest: coordinator d, worker w0 e":                   func(b *Identity) { b.ModelDigest = "e" },
		"format: coordinator q8, worker w0 bf16":                     func(b *Identity) { b.Format = "bf16" },
		"parts: coordinator 2, worker w0 1":                          func(b *Identity) { b.Parts = 1 },
		"layout version: coordinator 1, worker w0 3":                 func(b *Identity) { b.Layout = 3 },
		"": func(b *Identity) { b.Build = "v2" },
	} {
		b := a
		change(&b)
		if why := a.Mismatch("coordinator", b, "worker w0"); why != want {
			t.Errorf("%q, want %q", why, want)
		}
	}
}
