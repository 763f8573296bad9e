package kernels

import "fmt"

var kvFormats = []KVFormat{KVF32, KVBF16, KVInt8}

func (f KVFormat) String() string { return [...]string{"f32", "bf16", "int8"}[f] }

// kvBlock packs random keys and values.
func (in *inputs) kvBlock(s *Set, f KVFormat, keyDim, valueDim int) KVBlock {
	b := KVBlock{f, keyDim, valueDim, buffer[byte](in, KVBlockBytes(f, keyDim, valueDim))}
	k, v := make([]float32, keyDim), make([]float32, valueDim)
	for key := range KVBlockKeys {
		in.fill(k)
		in.fill(v)
		s.StoreKV(b, key, k, v)
	}
	return b
}

func (in *inputs) fill(x []float32) {
	for i := range x {
		x[i] = in.float()
	}
}

// attentionTile gives random queries that see random keys, often the same ones.
func (in *inputs) attentionTile(rows, keyDim, valueDim int) *AttentionTile {
	t := NewAttentionTile(keyDim, valueDim)
	t.Rows = rows
	for i := range rows {
		t.Q[i], t.State.Out[i] = in.floats(keyDim), buffer[float32](in, valueDim)
		t.State.Reset(i)
		switch from := in.random.IntN(KVBlockKeys); {
		case i > 0 && in.random.IntN(2) == 0:
			t.From[i], t.To[i] = t.From[i-1], t.To[i-1]
		case in.random.IntN(2) == 0:
			t.From[i], t.To[i] = 0, KVBlockKeys
		default:
			t.From[i], t.To[i] = int32(from), int32(from+1+in.random.IntN(KVBlockKeys-from))
		}
	}
	return t
}

func (in *inputs) attentionState(rows, valueDim int) *AttentionState {
	a := new(AttentionState)
	for i := range rows {
		a.Max[i], a.Sum[i], a.Out[i] = in.float(), in.float(), in.floats(valueDim)
	}
	return a
}

func (r *results) addState(a *AttentionState, rows int) {
	r.add(a.Max[:rows]...)
	r.add(a.Sum[:rows]...)
	for _, out := range a.Out[:rows] {
		r.add(out...)
	}
}

// attentionOperations are those of equal_vector_test.go that take tiles of queries.
func init() {
	for _, f := range kvFormats {
		vectorOperations = append(vectorOperations, vectorOperation{fmt.Sprintf("AttendBlock %v", f), func(s *Set, in *inputs, n int, r *results) {
			rows, keyDim, valueDim := n%AttentionRows+1, n%150+1, n%170+1
			t := in.attentionTile(rows, keyDim, valueDim)
			for range 2 {
				b := in.kvBlock(s, f, keyDim, valueDim)
				s.AttendBlockAhead(t, b, 0.125, in.kvBlock(s, f, keyDim, valueDim))
				r.addState(&t.State, rows)
			}
		}})
	}
	vectorOperations = append(vectorOperations, vectorOperation{"MergeAttention", func(s *Set, in *inputs, n int, r *results) {
		rows := n%AttentionRows + 1
		a := in.attentionState(rows, n+1)
		s.MergeAttention(a, in.attentionState(rows, n+1), rows)
		r.addState(a, rows)
	}})
}
