package bench

// Row is one measurement. Counts that don't apply to a test are 0, names are "", and measurements are nil.
type Row struct {
	Test    string `json:"test"` // "read", "int8", "f32", "cache", "memory", "layer", "pp512", "tg32", ...
	Rows    int    `json:"rows"` // token positions of one call
	Format  string `json:"format"`
	Kernels string `json:"kernels"` // or, of the machine's limits, the CPU feature that reaches them
	Threads int    `json:"threads"` // of each worker, where there are workers
	Workers int    `json:"workers"` // processes

	BestMS          *float64 `json:"best_ms"` // of one call
	MedianMS        *float64 `json:"median_ms"`
	GBPS            *float64 `json:"gbps"`         // GB/s of memory that has to be read
	GOPS            *float64 `json:"gops"`         // 10^9 operations per second
	TokensPerSecond *float64 `json:"tokens_per_s"` // mean over the repetitions
	SD              *float64 `json:"sd"`           // of tokens_per_s
	RooflinePercent *float64 `json:"roofline_pct"` // shortest possible time of the fastest call / its time · 100
}

// known makes a measurement that is there.
func known(v float64) *float64 { return &v }
