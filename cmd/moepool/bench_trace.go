package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/moepool/moepool/cmd/moepool/internal/bench"
	"github.com/moepool/moepool/internal/bytesize"
	"github.com/moepool/moepool/residency"
)

// optimumPolicy is the name of the bound among the policies of --eviction.
const optimumPolicy = "optimum"

// benchTrace replays a recorded residency trace.
type benchTrace struct {
	file     string
	limits   []string
	eviction []string
	output   benchOutput
}

func (f *benchTrace) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.file, "trace", "", "file of a --residency-trace to replay")
	flags.StringSliceVar(&f.limits, residentLimitFlag, nil, "with --trace: resident limits, as numbers of bytes, sizes such as 4GiB, or shares such as 1/3 of the bytes of all "+
		"experts that the trace asks for (default: the recorded one)")
	flags.StringSliceVar(&f.eviction, "eviction", nil, "with --trace: eviction policies: "+strings.Join(residency.Names, ", ")+", or "+optimumPolicy+
		", the bound of what is possible with knowledge of the future (default: all, the recorded one first)")
	f.output.register(flags)
}

// traceRow is one replay. Where the replay is the recording again, recorded is true, and its counters are the worker's own.
type traceRow struct {
	Worker        string  `json:"worker"`
	Eviction      string  `json:"eviction"`
	ResidentLimit int64   `json:"resident_limit"`
	LimitShare    float64 `json:"limit_share"` // of the bytes of all expert parts that the trace asks for
	Recorded      bool    `json:"recorded"`
	Requests      uint64  `json:"requests"`
	Hits          uint64  `json:"hits"`
	Misses        uint64  `json:"misses"`
	HitRate       float64 `json:"hit_rate"`
	MissBytes     int64   `json:"miss_bytes"`
	GhostBytes    *int64  `json:"ghost_bytes"`    // what would have been read without the budget; null for the optimum
	BytesNotRead  *int64  `json:"bytes_not_read"` // ghost_bytes − miss_bytes
	Evictions     *uint64 `json:"evictions"`
	Prefetched    *uint64 `json:"prefetched"`
	PrefetchUsed  *uint64 `json:"prefetch_used"`
	HintBytes     *int64  `json:"hint_bytes"` // read because of hints

	totals residency.Totals
}

var traceColumns = []bench.Column[traceRow]{
	{Name: "worker", Left: true, Text: func(r *traceRow) string { return r.Worker }},
	{Name: "limit", Text: func(r *traceRow) string { return bytesize.Text(r.ResidentLimit) }},
	{Name: "of experts", Text: func(r *traceRow) string { return fmt.Sprintf("%.1f %%", 100*r.LimitShare) }},
	{Name: "eviction", Left: true, Text: func(r *traceRow) string { return r.Eviction }},
	{Name: "requests", Text: func(r *traceRow) string { return fmt.Sprint(r.Requests) }},
	{Name: "hits", Text: func(r *traceRow) string { return fmt.Sprint(r.Hits) }},
	{Name: "misses", Text: func(r *traceRow) string { return fmt.Sprint(r.Misses) }},
	{Name: "hit rate", Text: func(r *traceRow) string { return fmt.Sprintf("%.1f %%", 100*r.HitRate) }},
	{Name: "to read", Text: func(r *traceRow) string { return bytesize.Text(r.MissBytes) }},
	{Name: "not read", Text: func(r *traceRow) string { return someBytes(r.BytesNotRead) }},
	{Name: "prefetched", Text: func(r *traceRow) string { return someBytes(r.HintBytes) }},
	{Name: "", Left: true, Text: func(r *traceRow) string {
		if r.Recorded {
			return "as recorded"
		}
		return ""
	}},
}

func someBytes(n *int64) string {
	return optional(n, func(v int64) string { return bytesOrNothing(float64(v)) })
}

func (f *benchTrace) run(cmd *cobra.Command) error {
	if err := f.output.validate(cmd); err != nil {
		return err
	}
	trace, err := readTrace(f.file)
	if err != nil {
		return err
	}
	limits, err := f.residentLimits(trace)
	if err != nil {
		return err
	}
	policies, err := f.policies(trace)
	if err != nil {
		return err
	}
	if trace.Recorded == nil {
		newLogger(true).Printf(warningPrefix+"%s has no end: its worker was killed or could not write; what it has is replayed, and can't be compared with the worker's counters", f.file)
	}
	rows := []traceRow{}
	var differs error
	for _, limit := range limits {
		for _, p := range policies {
			row, err := replay(trace, p, limit)
			if err != nil {
				return fmt.Errorf("--trace %s: %w", f.file, err)
			}
			if row.Recorded && row.totals != *trace.Recorded {
				differs = fmt.Errorf("--trace %s: the worker counted %+v, but its recording gives %+v: something is missing in it", f.file, *trace.Recorded, row.totals)
				row.Recorded = false
			}
			rows = append(rows, row)
		}
	}
	if f.output.asJSON {
		err = printJSON(cmd.OutOrStdout(), rows)
	} else {
		err = bench.WriteRows(cmd.OutOrStdout(), f.output.output, traceColumns, rows)
	}
	return errors.Join(err, differs)
}

func readTrace(name string) (*residency.Trace, error) {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usageError{fmt.Errorf("--trace: %w", err)}
	}
	if err != nil {
		return nil, fmt.Errorf("--trace: %w", err)
	}
	defer file.Close()
	trace, err := residency.ReadTrace(file)
	if err != nil {
		return nil, fmt.Errorf("--trace %s: %w", name, err)
	}
	return trace, nil
}

func (f *benchTrace) residentLimits(trace *residency.Trace) ([]int64, error) {
	if len(f.limits) == 0 {
		return []int64{trace.Limit}, nil
	}
	var limits []int64
	for _, text := range f.limits {
		limit, err := bytesize.Parse(text)
		if above, below, isShare := strings.Cut(text, "/"); isShare {
			limit, err = share(above, below, trace.Requested())
		}
		if err != nil {
			return nil, usageError{fmt.Errorf("--%s: %w; or a share such as 1/3", residentLimitFlag, err)}
		}
		limits = append(limits, limit)
	}
	return limits, nil
}

// share is above/below of a number of bytes.
func share(above, below string, of int64) (int64, error) {
	a, err := strconv.ParseUint(above, 10, 16)
	b, err2 := strconv.ParseUint(below, 10, 16)
	if err != nil || err2 != nil || a < 1 || b < a {
		return 0, fmt.Errorf("%s/%s is no share from 1/65535 to 1/1", above, below)
	}
	return int64(float64(of) * float64(a) / float64(b)), nil
}

// policies are those of --eviction; the optimum is nil.
func (f *benchTrace) policies(trace *residency.Trace) ([]residency.Policy, error) {
	names := f.eviction
	if len(names) == 0 {
		names = []string{trace.Policy}
		for _, name := range append(residency.Names, optimumPolicy) {
			if name != trace.Policy {
				names = append(names, name)
			}
		}
	}
	var policies []residency.Policy
	for _, name := range names {
		if name == optimumPolicy {
			policies = append(policies, nil)
			continue
		}
		p, err := residency.Parse(name)
		if err != nil && len(f.eviction) == 0 {
			return nil, fmt.Errorf("--trace %s was recorded by another version: %w", f.file, err)
		}
		if err != nil {
			return nil, usageError{fmt.Errorf("--eviction: %w, %s", err, optimumPolicy)}
		}
		policies = append(policies, p)
	}
	return policies, nil
}

// replay asks a policy, or the optimum (nil), what the trace has.
func replay(trace *residency.Trace, p residency.Policy, limit int64) (traceRow, error) {
	row := traceRow{Worker: trace.Worker, Eviction: optimumPolicy, ResidentLimit: limit, LimitShare: float64(limit) / float64(max(trace.Requested(), 1))}
	var sum residency.Totals
	var err error
	if p == nil {
		sum, err = trace.Optimum(limit)
	} else {
		sum, err = trace.Replay(p, limit)
		row.Eviction = p.String()
		row.Recorded = trace.Recorded != nil && row.Eviction == trace.Policy && limit == trace.Limit
		notRead := sum.GhostBytes - sum.MissBytes
		row.GhostBytes, row.BytesNotRead, row.Evictions = &sum.GhostBytes, &notRead, &sum.Evictions
		row.Prefetched, row.PrefetchUsed, row.HintBytes = &sum.Prefetched, &sum.PrefetchUsed, &sum.HintBytes
	}
	row.totals = sum
	row.Requests, row.Hits, row.Misses, row.HitRate, row.MissBytes = sum.Requests, sum.Hits, sum.Misses, sum.HitRate(), sum.MissBytes
	return row, err
}
