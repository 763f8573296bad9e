package transport

import (
	"slices"
	"time"

	"github.com/moepool/moepool/kernels"
	"pgregory.net/rapid"
)

// Generators of valid messages.

func ascending(t *rapid.T, label string, limit, most int) []uint32 {
	var parts []uint32
	for _, p := range rapid.SliceOfNDistinct(rapid.IntRange(0, limit-1), 0, most, rapid.ID[int]).Draw(t, label) {
		parts = append(parts, uint32(p))
	}
	slices.Sort(parts)
	return parts
}

func drawList(t *rapid.T, label string) LayerParts {
	return LayerParts{rapid.IntRange(0, MaxLayers).Draw(t, label+" layer"), ascending(t, label, 500, 20)}
}

func drawLists(t *rapid.T, label string) (lists []LayerParts) {
	for range rapid.IntRange(0, 4).Draw(t, label+" lists") {
		lists = append(lists, drawList(t, label))
	}
	return lists
}

func drawWork(t *rapid.T) *Work {
	w := &Work{
		Epoch: rapid.Uint64().Draw(t, "epoch"), Term: rapid.Uint64().Draw(t, "term"), Layer: rapid.IntRange(0, MaxLayers).Draw(t, "layer"),
		Request: rapid.Uint64().Draw(t, "request"), Attempt: rapid.Uint32().Draw(t, "attempt"), Rows: rapid.IntRange(1, 9).Draw(t, "rows"),
		Hidden: rapid.IntRange(1, 200).Draw(t, "hidden"), Quantized: rapid.Bool().Draw(t, "quantized"), Offsets: []uint32{0},
	}
	number := rapid.Float32()
	if w.Quantized {
		n, g := w.Rows*kernels.PaddedColumns(w.Hidden), w.Rows*kernels.Groups(w.Hidden)
		w.Codes = rapid.SliceOfN(rapid.Int8Range(-127, 127), n, n).Draw(t, "codes")
		w.Scales = rapid.SliceOfN(number, g, g).Draw(t, "scales")
	} else {
		w.Values = rapid.SliceOfN(number, w.Rows*w.Hidden, w.Rows*w.Hidden).Draw(t, "values")
	}
	for range w.Rows {
		w.Parts = append(w.Parts, ascending(t, "parts", 300, 5)...)
		w.Offsets = append(w.Offsets, uint32(len(w.Parts)))
	}
	if n := len(w.Parts); n > 0 {
		w.Weights = rapid.SliceOfN(number, n, n).Draw(t, "weights")
	}
	w.Cut, w.Hint = drawLists(t, "cut"), drawList(t, "hint")
	w.Filled = ascending(t, "filled", 300, 5)
	return w
}

func drawResult(t *rapid.T) *Result {
	r := &Result{
		Request: rapid.Uint64().Draw(t, "request"), Attempt: rapid.Uint32().Draw(t, "attempt"), Rows: rapid.IntRange(1, 20).Draw(t, "rows"),
		Hidden: rapid.IntRange(1, 70).Draw(t, "hidden"), BytesRead: rapid.Int64Min(0).Draw(t, "read"),
		MissBytes: rapid.Int64Min(0).Draw(t, "missed"), GhostBytes: rapid.Int64Min(-1).Draw(t, "ghost"), MajorFaults: rapid.Int64Min(0).Draw(t, "faults"),
		Arrived: drawLists(t, "arrived"), Evicted: drawLists(t, "evicted"), Number: rapid.Uint64().Draw(t, "number"),
		ComputeTime: rapid.Int64Min(0).Draw(t, "compute"), QueueTime: rapid.Int64Min(0).Draw(t, "queue"),
	}
	for range r.Rows {
		small := rapid.Bool().Draw(t, "small")
		element := rapid.Int64()
		if small {
			element = rapid.Int64Range(-1<<31, 1<<31-1)
		}
		r.Sum = append(r.Sum, rapid.SliceOfN(element, r.Hidden, r.Hidden).Draw(t, "sum")...)
	}
	if rapid.Bool().Draw(t, "errors") {
		r.RowErrors = rapid.SliceOfN(rapid.Uint8Range(0, RowOverflow), r.Rows, r.Rows).Draw(t, "row errors")
	}
	r.Parts = ascending(t, "parts", 300, 40)
	if n := (len(r.Parts) + 7) / 8; n > 0 {
		r.Hits = rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "hits")
	}
	return r
}

func drawText(t *rapid.T, label string) string { return rapid.StringN(0, 40, -1).Draw(t, label) }

func drawIdentity(t *rapid.T) Identity {
	return Identity{
		Protocol: rapid.IntRange(0, 1<<20).Draw(t, "protocol"), Build: drawText(t, "build"), ModelDigest: drawText(t, "digest"),
		Format: drawText(t, "format"), Parts: rapid.IntRange(0, 1000).Draw(t, "parts"), Layout: rapid.IntRange(0, 9).Draw(t, "layout"),
	}
}

func drawBeat(t *rapid.T) *Beat {
	size := rapid.Int64Min(0)
	count := rapid.IntRange(0, 1<<31-1)
	b := &Beat{
		Worker: drawText(t, "worker"), Instance: drawText(t, "instance"), Host: drawText(t, "host"), Node: rapid.IntRange(-1, 300).Draw(t, "node"),
		PID: count.Draw(t, "pid"), CPUs: rapid.SliceOfN(rapid.IntRange(0, 5000), 0, 200).Draw(t, "cpus"), Threads: count.Draw(t, "threads"),
		Kernels: drawText(t, "kernels"), Capacity: size.Draw(t, "capacity"), Identity: drawIdentity(t),
		State: WorkerState(drawText(t, "state")), Error: drawText(t, "error"), Epoch: rapid.Uint64().Draw(t, "epoch"),
		Term: rapid.Uint64().Draw(t, "term"), Coordinator: drawText(t, "coordinator"), LoadedBytes: size.Draw(t, "loaded"),
		TotalBytes: size.Draw(t, "total"), ExpertParts: count.Draw(t, "parts"), RSSAnon: size.Draw(t, "rss"), Bound: rapid.Bool().Draw(t, "bound"),
		Lane: LaneOffer{drawText(t, "lane host"), drawText(t, "lane address"), drawText(t, "lane secret")},
		Arena: ArenaReport{Files: count.Draw(t, "files"), Bytes: size.Draw(t, "bytes"), PackedBytes: size.Draw(t, "packed"),
			ReusedBytes: size.Draw(t, "reused"), Fallbacks: count.Draw(t, "fallbacks")},
		Pages: PagesReport{Local: size.Draw(t, "local"), Remote: size.Draw(t, "remote")},
	}
	b.Queue, b.ComputedBytes, b.ComputeTime = count.Draw(t, "queue"), size.Draw(t, "computed"), size.Draw(t, "compute time")
	b.Serves = rapid.SliceOfNDistinct(rapid.Uint64(), 0, MaxServed, rapid.ID[uint64]).Draw(t, "serves")
	slices.Sort(b.Serves)
	for _, layer := range ascending(t, "timed layers", MaxLayers, 6) {
		b.LayerTimes = append(b.LayerTimes, LayerTime{Layer: int(layer), Count: rapid.Uint64().Draw(t, "count"), Nanoseconds: size.Draw(t, "nanoseconds"),
			Hits: rapid.Uint64().Draw(t, "hits"), Misses: rapid.Uint64().Draw(t, "misses"), BytesRead: size.Draw(t, "read"), MajorFaults: rapid.Uint64().Draw(t, "faults")})
	}
	for range rapid.IntRange(0, 5).Draw(t, "layers") {
		b.Resident = append(b.Resident, LayerBitmap{rapid.IntRange(0, MaxLayers).Draw(t, "layer"), rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "bits")})
	}
	number := rapid.Uint64()
	b.Results = number.Draw(t, "results")
	b.Residency = ResidencyReport{Limit: size.Draw(t, "limit"), Eviction: drawText(t, "eviction"), Resident: size.Draw(t, "resident"),
		Hits: number.Draw(t, "hits"), Misses: number.Draw(t, "misses"), MissBytes: size.Draw(t, "missed"), BytesRead: size.Draw(t, "read"),
		GhostBytes: rapid.Int64Min(-1).Draw(t, "ghost"), MajorFaults: number.Draw(t, "faults"), Evictions: number.Draw(t, "evictions"),
		Reclaimed: number.Draw(t, "reclaimed"), Prefetched: number.Draw(t, "prefetched"), PrefetchUsed: number.Draw(t, "prefetch used"), PrefetchLate: number.Draw(t, "prefetch late"),
		PrefetchOff: rapid.Bool().Draw(t, "prefetch off"), Warm: drawText(t, "warm"), WarmDone: size.Draw(t, "warm done"),
		WarmTotal: size.Draw(t, "warm total"), Locked: size.Draw(t, "locked")}
	for range rapid.IntRange(0, 20).Draw(t, "notes") {
		b.Notes = append(b.Notes, drawText(t, "note"))
	}
	return b
}

func drawAssign(t *rapid.T) *Assign {
	a := &Assign{Coordinator: drawText(t, "coordinator"), Epoch: rapid.Uint64().Draw(t, "epoch"), Term: rapid.Uint64().Draw(t, "term"), Identity: drawIdentity(t)}
	for _, layer := range ascending(t, "layers", MaxLayers, 6) {
		a.Layers = append(a.Layers, LayerParts{int(layer), ascending(t, "parts", 500, 60)})
	}
	return a
}

func drawGenerateRequest(t *rapid.T) *GenerateRequest {
	q := &GenerateRequest{
		Prompt: drawText(t, "prompt"), PromptTokens: rapid.SliceOfN(rapid.Int32(), 0, 30).Draw(t, "tokens"), MaxTokens: int(rapid.Int32().Draw(t, "max")),
		Temperature: rapid.Float32().Draw(t, "temperature"), TopK: int(rapid.Int32().Draw(t, "top-k")), TopP: rapid.Float32().Draw(t, "top-p"),
		MinP: rapid.Float32().Draw(t, "min-p"), Seed: rapid.Uint64().Draw(t, "seed"), IgnoreEOS: rapid.Bool().Draw(t, "ignore"),
		Generated: rapid.SliceOfN(rapid.Int32(), 0, 30).Draw(t, "generated"), ExpertBudget: drawText(t, "budget"),
		Timeout: time.Duration(rapid.Int64Range(0, int64(maxTimeout)).Draw(t, "timeout")),
	}
	for range rapid.IntRange(0, 4).Draw(t, "messages") {
		q.Messages = append(q.Messages, ChatMessage{drawText(t, "role"), drawText(t, "content")})
	}
	for range rapid.IntRange(0, 4).Draw(t, "stops") {
		q.Stop = append(q.Stop, drawText(t, "stop"))
	}
	return q
}

func drawEvent(t *rapid.T) *GenerateEvent {
	count := rapid.IntRange(0, 1<<31-1)
	e := &GenerateEvent{
		Text: drawText(t, "text"), Tokens: rapid.SliceOfN(rapid.Int32(), 0, 30).Draw(t, "tokens"), Done: rapid.Bool().Draw(t, "done"),
		FinishReason: drawText(t, "reason"), Error: drawText(t, "error"), PromptTokens: count.Draw(t, "prompt"),
		CompletionTokens: count.Draw(t, "completion"), PrefillSeconds: rapid.Float64().Draw(t, "prefill"), DecodeSeconds: rapid.Float64().Draw(t, "decode"),
		Instance: drawText(t, "instance"), Retry: rapid.Bool().Draw(t, "retry"),
	}
	if rapid.Bool().Draw(t, "experts") {
		e.Experts = &ExpertUsage{
			Budget: drawText(t, "budget"), BudgetPrefill: rapid.Bool().Draw(t, "govern"), BudgetRescue: rapid.Bool().Draw(t, "rescue"),
			DroppedExperts: count.Draw(t, "dropped"), LostChoices: count.Draw(t, "lost"), FilledChoices: count.Draw(t, "filled"),
			CutRows: count.Draw(t, "cut"), RescuedRows: count.Draw(t, "rescued"), DroppedMass: rapid.Float64().Draw(t, "mass"),
			GovernedRows: rapid.Uint64().Draw(t, "governed"), DroppedShares: [3]float64{rapid.Float64().Draw(t, "mean"), 0.5, 1},
			DroppedBytes: rapid.Int64Min(0).Draw(t, "unread"), BytesNotRead: rapid.Int64().Draw(t, "not read"), Ledgers: rapid.Bool().Draw(t, "ledgers"),
			Hits: count.Draw(t, "hits"), Misses: count.Draw(t, "misses"), MissBytes: rapid.Int64Min(0).Draw(t, "missed"),
			BytesRead: rapid.Int64Min(0).Draw(t, "read"), MajorFaults: rapid.Int64Min(0).Draw(t, "faults"),
			OnMissing: drawText(t, "on missing"), Retries: count.Draw(t, "retries"), Hedges: count.Draw(t, "hedges"),
			HedgeWins: count.Draw(t, "wins"), Waits: count.Draw(t, "waits"), Waited: time.Duration(rapid.Int64Min(0).Draw(t, "waited")),
			DroppedParts: count.Draw(t, "parts"), MissingMass: rapid.Float64().Draw(t, "missing"), EmptyRows: count.Draw(t, "empty"),
		}
	}
	return e
}
