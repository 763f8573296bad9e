package transport

import "testing"

// BenchmarkCoding is what encoding and decoding add to a round trip of one row.
func BenchmarkCoding(b *testing.B) {
	work := testWork(1, 1, benchHidden, true)
	result := benchResult(1)
	run := func(name string, k kind, m, into message) {
		b.Run("encode="+name, func(b *testing.B) {
			var w wire
			b.ReportAllocs()
			for b.Loop() {
				if err := encode(&w, k, m); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("decode="+name, func(b *testing.B) {
			var w, r wire
			if err := encode(&w, k, m); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := open(&r, w.buf); err != nil {
					b.Fatal(err)
				}
				if err := decode(&r, into); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("work", kindWork, &workFrame{work: work}, &workFrame{work: &Work{}})
	run("result", kindResult, result, &Result{})
}
