package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/attention"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/model"
	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/internal/bytesize"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/numa/hostinfo"
	"github.com/moepool/moepool/residency"
	"github.com/moepool/moepool/worker"
	"github.com/moepool/moepool/worker/shard"
)

// residencyFlags say how experts come into memory and leave it.
type residencyFlags struct {
	limit     string
	eviction  string
	warm      string
	prefetch  string
	mlock     bool
	hugePages string
	trace     string
}

// Values of --resident-limit that are no size.
const (
	limitAuto = "auto"
	limitNone = "none"
)

const residentLimitFlag = "resident-limit"

func (f *residencyFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.limit, residentLimitFlag, limitAuto, "most bytes of experts that stay in memory, of all workers that this command starts together: a number or a size "+
		"such as 4GiB; none: the kernel decides; auto: what the control group's memory limit has room for, if that is less than the experts")
	flags.StringVar(&f.eviction, "eviction", residency.Default.String(), "with a resident limit, which experts leave for others: "+strings.Join(residency.Names, ", "))
	flags.StringVar(&f.warm, "warm", string(worker.WarmNone),
		"experts that are brought into memory before the first answer, as far as there is room: all, hottest (those that earlier runs needed most) or none")
	flags.StringVar(&f.prefetch, "prefetch", string(shard.PrefetchAuto), "with a resident limit, read what the next layer will probably need: auto (while that pays), on or off")
	flags.BoolVar(&f.mlock, "mlock", false, "lock experts in memory while they are resident, as far as RLIMIT_MEMLOCK allows")
	flags.StringVar(&f.hugePages, "huge-pages", string(arena.HugePagesAuto), "pages that experts are mapped by: auto (huge ones where the kernel can) or never")
	flags.StringVar(&f.trace, "residency-trace", "",
		"file that records what was asked of the resident limit's ledger, for bench --trace; one for each worker, with its name behind a dot, where there are several")
}

// check finds what is wrong with the flags before anything is started.
func (f *residencyFlags) check() error {
	if f.limit != limitAuto && f.limit != limitNone {
		if _, err := f.total(); err != nil {
			return err
		}
	}
	limit := int64(1)
	if f.limit == limitNone {
		limit = 0
	}
	_, err := f.parse(limit)
	return err
}

// total is the limit as a number of bytes.
func (f *residencyFlags) total() (int64, error) {
	total, err := bytesize.Parse(f.limit)
	if err != nil {
		return 0, usageError{fmt.Errorf("--%s: %w, %s and %s", residentLimitFlag, err, limitNone, limitAuto)}
	}
	return total, nil
}

// parse is what the flags ask of a worker whose limit is known; limit 0 is none.
func (f *residencyFlags) parse(limit int64) (r worker.Residency, err error) {
	r.Limit, r.MLock, r.Trace = limit, f.mlock, f.trace
	if r.Eviction, err = residency.Parse(f.eviction); err != nil {
		return r, usageError{fmt.Errorf("--eviction: %w", err)}
	}
	if r.Warm, err = worker.ParseWarm(f.warm); err != nil {
		return r, usageError{fmt.Errorf("--warm: %w", err)}
	}
	prefetch, err := engine.ParsePrefetch(f.prefetch)
	if err != nil {
		return r, usageError{fmt.Errorf("--prefetch: %w", err)}
	}
	r.Prefetch = shard.Prefetch(prefetch.String())
	if r.HugePages, err = arena.ParsePageSize(f.hugePages); err != nil {
		return r, usageError{fmt.Errorf("--huge-pages: %w", err)}
	}
	if f.trace != "" && limit == 0 {
		return r, usageError{errors.New("--residency-trace records what the ledger of a resident limit is asked, and there is no limit; give --" + residentLimitFlag)}
	}
	return r, nil
}

// residentRoom is what --resident-limit comes to.
type residentRoom struct {
	each  int64  // bytes of each worker; 0: no limit
	text  string // where it comes from, for people; "" without a limit
	asked bool   // it was given, not found
}

// say tells of a limit: one that was found, and that not all experts fit into, is news.
func (r residentRoom) say(log *logger) {
	switch {
	case r.text == "":
	case r.asked:
		log.Printf("%s", r.text)
	default:
		log.Printf(warningPrefix+"%s", r.text)
	}
}

// notes are what a report says of a limit that was found.
func (r residentRoom) notes() []string {
	if r.text == "" || r.asked {
		return nil
	}
	return []string{r.text}
}

// holding is what workers that start now will take of memory, in bytes.
type holding struct {
	workers int
	needs   int64 // of all processes that start, beside the experts
	experts int64 // that they hold together; 0 if that isn't known yet
	largest int64 // of an expert part
	files   bool  // experts lie in files, which the kernel can take back
}

// room finds the limit of each worker.
func (f *residencyFlags) room(host hostinfo.Host, h holding) (residentRoom, error) {
	switch f.limit {
	case limitNone:
		return residentRoom{}, nil
	case limitAuto:
		if !h.files {
			return residentRoom{}, nil
		}
		r := host.Room(h.needs)
		if r.Bytes == hostinfo.Unlimited || h.experts > 0 && r.Bytes >= h.experts {
			return residentRoom{}, nil
		}
		each := r.Bytes / int64(h.workers)
		if each < h.largest || each == 0 {
			return residentRoom{0, fmt.Sprintf("no resident limit is kept, there is room for less than one expert of each worker: the kernel decides what stays in memory (%s)",
				r.Reason), false}, nil
		}
		of := ""
		if h.experts > 0 {
			of = " of " + bytesize.Text(h.experts)
		}
		return residentRoom{each, fmt.Sprintf("resident limit: %s%s of experts%s (%s)", bytesize.Text(r.Bytes), of, ofEach(each, h.workers), r.Reason), false}, nil
	}
	total, err := f.total()
	if err != nil {
		return residentRoom{}, err
	}
	each := max(1, total/int64(h.workers))
	return residentRoom{each, fmt.Sprintf("resident limit: %s of experts%s", bytesize.Text(total), ofEach(each, h.workers)), true}, nil
}

func ofEach(each int64, workers int) string {
	if workers == 1 {
		return ""
	}
	return fmt.Sprintf(" for %d workers, %s each", workers, bytesize.Text(each))
}

// arguments are those of child processes with so many bytes each, without the trace, which childTraces adds.
func (f *residencyFlags) arguments(each int64) []string {
	limit := limitNone
	if each > 0 {
		limit = strconv.FormatInt(each, 10)
	}
	return []string{"--" + residentLimitFlag, limit, "--eviction", f.eviction, "--warm", f.warm, "--prefetch", f.prefetch,
		"--mlock=" + strconv.FormatBool(f.mlock), "--huge-pages", f.hugePages}
}

// traceOf is the trace file of one of several workers.
func (f *residencyFlags) traceOf(id string, workers int) string {
	if f.trace == "" || workers == 1 {
		return f.trace
	}
	return f.trace + "." + id
}

// What processes take beside what is counted, for prompts of some hundred tokens: the program, the Go heap, buffers, messages. Packing takes more,
// for a while; the kernel takes back experts for it.
const (
	coordinatorNeeds = 64 << 20
	workerNeeds      = 48 << 20
)

// holdingOf is what so many workers take that hold all experts of a model in files.
func holdingOf(m placement.Model, workers int) holding {
	h := holding{workers: workers, files: true}
	if len(m.Layers) > 0 {
		h.largest = slices.Max(m.PartBytes)
	}
	for _, b := range m.PartBytes {
		h.experts += b * int64(m.Experts) * int64(len(m.Layers))
	}
	h.needs = int64(workers) * workerNeeds
	return h
}

// coordinatorBytes is what a coordinator with one sequence takes.
func coordinatorBytes(c *coordinator.Coordinator, dense kernels.Format, kv attention.Format) (int64, error) {
	weights, err := model.Bytes(c.Checkpoint, dense)
	if err != nil {
		return 0, err
	}
	config := c.Checkpoint.Config()
	shape := attention.Shape{Layers: len(config.Layers), KVHeads: config.KVHeads, HeadDim: config.HeadDim, Format: kv}
	return coordinatorNeeds + weights + int64(c.Context())*int64(shape.PositionBytes()), nil
}
