package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/coordinator/attention"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/dispatch"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/demo"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
	"github.com/moepool/moepool/worker/children"
)

// modelFlags say which model is used and how its experts are stored; coordinator and workers must agree on them.
type modelFlags struct {
	model   string
	format  string
	parts   int
	kernels string
}

func (f *modelFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.model, "model", "", "Hugging Face model folder (default: the embedded demo model)")
	flags.StringVar(&f.format, "format", "q8", "weight format of the experts: "+kernels.FormatNames())
	flags.IntVar(&f.parts, "parts", 1, "parts that each expert is packed in, along its intermediate dimension")
	flags.StringVar(&f.kernels, "kernels", "auto", kernelsUsage())
}

// kernelsUsage is the help text of --kernels.
func kernelsUsage() string { return "kernels to use: auto, " + strings.Join(kernels.Known(), ", ") }

// resolve checks the flags and finds the model folder.
func (f *modelFlags) resolve(ctx context.Context) (dir string, format kernels.Format, set *kernels.Set, err error) {
	if format, err = kernels.ParseFormat(f.format); err != nil {
		return "", 0, nil, usageError{fmt.Errorf("--format: %w", err)}
	}
	if f.parts < 1 {
		return "", 0, nil, usageError{fmt.Errorf("--parts is %d, it must be at least 1", f.parts)}
	}
	if set, err = kernels.Select(f.kernels); err != nil {
		return "", 0, nil, usageError{fmt.Errorf("--kernels: %w", err)}
	}
	if os.Getenv(children.ParentPipeEnv) == "" { // once, not by each worker again
		if kernels.AMXEmulated() {
			fmt.Fprintln(os.Stderr, "AMXTRAP=1: AMX counts as present, though this CPU has none")
		}
		if why := f.refused(); why != "" {
			fmt.Fprintln(os.Stderr, why)
		}
	}
	dir = f.model
	if dir == "" {
		dir, err = demo.Dir(ctx)
	}
	return dir, format, set, err
}

// refused says that the best kernels of this CPU are not used because the operating system refuses them; "" if it doesn't, or if other
// kernels were asked for.
func (f *modelFlags) refused() string {
	err := kernels.AMXRefused()
	if err == nil || f.kernels != "auto" && f.kernels != "" {
		return ""
	}
	return fmt.Sprintf("kernels %s are used instead of amx: %v", kernels.Available()[0], err)
}

// coordinatorFlags configure the running model.
type coordinatorFlags struct {
	denseFormat     string
	kvFormat        string
	context         int
	threads         int
	prefillChunk    int
	expertBudget    string
	budgetPrefill   bool
	budgetRescue    bool
	budgetResidency string
	onMissing       string
	missingDeadline time.Duration
	replicas        int
	trace           string
	prefetch        string // "": auto. Commands that start workers have it from their residency flags
}

// registerSizes registers the flags that decide how much memory a model takes.
func (f *coordinatorFlags) registerSizes(flags *pflag.FlagSet) {
	flags.StringVar(&f.denseFormat, "dense-format", "", "weight format of attention, shared and dense FFN and LM head (default: --format, but q8 when experts have 4 bits)")
	flags.StringVar(&f.kvFormat, "kv-format", "", "format of the KV cache: f32, bf16 or int8, half of bf16 (default: f32 with f32 weights, else bf16)")
	flags.IntVar(&f.context, "context", 0, "most positions of a sequence (default: the model's, at most 8192)")
}

func (f *coordinatorFlags) register(flags *pflag.FlagSet) {
	f.registerSizes(flags)
	flags.IntVar(&f.threads, "coordinator-threads", 0, "threads of the coordinator (default: the allowed physical cores)")
	flags.IntVar(&f.prefillChunk, "prefill-chunk", 0, "prompt positions computed in one step; 0 is the default, 512")
	flags.StringVar(&f.expertBudget, "expert-budget", "off", "which experts a layer leaves out instead of reading them (docs/budget.md): "+budget.Syntax)
	flags.BoolVar(&f.budgetPrefill, "budget-prefill", false, "let the budget cut prefill too (costs much quality)")
	flags.BoolVar(&f.budgetRescue, "budget-rescue", true, "a row never loses its last expert")
	flags.StringVar(&f.budgetResidency, "budget-residency", "observed",
		"which experts count as resident for the budget: observed, none, or a list of expert ids (to measure a budget's worst case)")
	flags.StringVar(&f.onMissing, "on-missing", dispatch.WaitMissing.String(),
		"what to do when no worker holds an expert that is needed: wait until --missing-deadline, fail (within a second), or drop the expert (changes the answer)")
	flags.DurationVar(&f.missingDeadline, "missing-deadline", dispatch.DefaultMissing, "how long --on-missing wait waits for a worker")
	flags.StringVar(&f.trace, "trace", "", "file for a trace of the workers' answers: queue, computing and network (JSON of Chrome's trace viewer and Perfetto)")
	flags.IntVar(&f.replicas, "replicas", 1, "most workers that hold one expert part, in memory that is spare; with 2, any worker may be lost without a pause")
}

// registerPrefetch registers the flag of a coordinator that starts no workers, which have one of the same name.
func (f *coordinatorFlags) registerPrefetch(flags *pflag.FlagSet) {
	flags.StringVar(&f.prefetch, "prefetch", engine.PrefetchAuto.String(),
		"tell workers which experts the next layer will probably need: auto (while experts have been missing lately), on or off")
}

// missing is what --on-missing and --missing-deadline ask for.
func (f *coordinatorFlags) missing() (dispatch.OnMissing, time.Duration, error) {
	what, err := dispatch.ParseOnMissing(f.onMissing)
	if err != nil {
		return 0, 0, usageError{fmt.Errorf("--on-missing: %w", err)}
	}
	if f.missingDeadline <= 0 {
		return 0, 0, usageError{fmt.Errorf("--missing-deadline is %s, it must be above 0", f.missingDeadline)}
	}
	return what, f.missingDeadline, nil
}

// policy is the budget that the flags ask for.
func (f *coordinatorFlags) policy() (budget.Policy, error) {
	p, err := budget.Parse(f.expertBudget)
	if err != nil {
		return p, usageError{fmt.Errorf("--expert-budget: %w", err)}
	}
	p.Prefill, p.Rescue = f.budgetPrefill, f.budgetRescue
	return p, nil
}

// formats resolves the dense and KV formats against the experts' format (DESIGN §3).
func (f *coordinatorFlags) formats(experts kernels.Format) (kernels.Format, attention.Format, error) {
	dense := experts
	if experts.FourBits() {
		dense = kernels.Q8
	}
	if f.denseFormat != "" {
		var err error
		if dense, err = kernels.ParseFormat(f.denseFormat); err != nil {
			return 0, "", usageError{fmt.Errorf("--dense-format: %w", err)}
		}
	}
	if f.kvFormat == "" {
		if dense == kernels.F32 && experts == kernels.F32 {
			return dense, attention.F32, nil
		}
		return dense, attention.BF16, nil
	}
	kv, err := attention.ParseFormat(f.kvFormat)
	if err != nil {
		return 0, "", usageError{fmt.Errorf("--kv-format: %w", err)}
	}
	return dense, kv, nil
}

// arenaFlags say where packed experts are kept.
type arenaFlags struct {
	dir        string
	strictNUMA bool
}

func (f *arenaFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.dir, "arena-dir", "", "folder of packed experts, reused on the next start; none: anonymous memory (default: the user's cache folder)")
	flags.BoolVar(&f.strictNUMA, "strict-numa", false, "bind memory strictly to the node; less than 95 % local pages is an error")
}

func (f *arenaFlags) folder() (string, error) {
	switch f.dir {
	case "none":
		return "", nil
	case "", "default":
		return arena.DefaultDir()
	}
	return f.dir, nil
}

// laneFlags say which way tensors take between a coordinator and workers of the same host.
type laneFlags struct{ lane string }

func (f *laneFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.lane, "lane", transport.LaneNATS,
		"way of the tensors between coordinator and workers of one host: nats, or local (a unix socket, where both sides ask for it)")
}

// local says whether the local lane is asked for.
func (f *laneFlags) local() (bool, error) {
	switch f.lane {
	case transport.LaneNATS, transport.LaneLocal:
		return f.lane == transport.LaneLocal, nil
	}
	return false, usageError{fmt.Errorf("--lane is %q, valid are %s and %s", f.lane, transport.LaneNATS, transport.LaneLocal)}
}

// natsFlags say how to reach NATS.
type natsFlags struct {
	url       string
	cluster   string
	tokenFile string
	creds     string
	nkey      string
	ca        string
	cert      string
	key       string
}

const tokenVariable = "MOEPOOL_NATS_TOKEN"

func (f *natsFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.url, "nats", "", "URL of a NATS server, or a comma-separated list; schemes nats, tls, ws, wss (default: an embedded server)")
	flags.StringVar(&f.cluster, "cluster", transport.DefaultCluster, "name that separates moepool clusters on one NATS")
	flags.StringVar(&f.tokenFile, "token-file", "", "file with the NATS token (or the token itself in "+tokenVariable+")")
	flags.StringVar(&f.creds, "nats-creds", "", "NATS credentials file: JWT and seed of a user")
	flags.StringVar(&f.nkey, "nats-nkey", "", "file with the seed of a user's nkey (see docs/nats.md)")
	flags.StringVar(&f.ca, "nats-ca", "", "CA certificate of the NATS servers (PEM); with it only TLS is spoken")
	flags.StringVar(&f.cert, "nats-cert", "", "TLS client certificate (PEM), where the server asks for one")
	flags.StringVar(&f.key, "nats-key", "", "key of --nats-cert (PEM)")
}

func (f *natsFlags) token() (string, error) {
	if f.tokenFile == "" {
		return os.Getenv(tokenVariable), nil
	}
	data, err := os.ReadFile(f.tokenFile)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", fmt.Errorf("--token-file %s is empty", f.tokenFile)
	}
	return token, nil
}

// options are the connection options of a client; the flags must name a server.
func (f *natsFlags) options(name string, log func(string, ...any)) (transport.ConnectOptions, error) {
	if !transport.ValidName(f.cluster) {
		return transport.ConnectOptions{}, usageError{fmt.Errorf("--cluster is %q, valid are letters, digits, _ and -", f.cluster)}
	}
	token, err := f.token()
	if err != nil {
		return transport.ConnectOptions{}, err
	}
	return transport.ConnectOptions{
		URL: f.url, Token: token, Credentials: f.creds, NKey: f.nkey,
		Cluster: f.cluster, CAFile: f.ca, CertFile: f.cert, KeyFile: f.key, Name: name, Log: log,
	}, nil
}

// samplingFlags shape the answers.
type samplingFlags struct {
	maxTokens   int
	temperature float32
	topK        int
	topP        float32
	minP        float32
	seed        uint64
	stop        []string
	ignoreEOS   bool
}

func (f *samplingFlags) register(flags *pflag.FlagSet) {
	flags.IntVar(&f.maxTokens, "max-tokens", 128, "most tokens to generate")
	flags.Float32Var(&f.temperature, "temperature", 0, "sampling temperature; 0 is greedy")
	flags.IntVar(&f.topK, "top-k", 0, "sample from the K most likely tokens only; 0 is off")
	flags.Float32Var(&f.topP, "top-p", 1, "sample from the smallest set of tokens with this probability; 1 is off")
	flags.Float32Var(&f.minP, "min-p", 0, "drop tokens less likely than this share of the best; 0 is off")
	flags.Uint64Var(&f.seed, "seed", 0, "seed of the sampler")
	flags.StringArrayVar(&f.stop, "stop", nil, "text that ends the answer (repeatable)")
	flags.BoolVar(&f.ignoreEOS, "ignore-eos", false, "go on after an end token")
}

func (f *samplingFlags) validate() error {
	if f.maxTokens < 1 {
		return usageError{fmt.Errorf("--max-tokens is %d, it must be at least 1", f.maxTokens)}
	}
	for _, s := range f.stop {
		if s == "" {
			return usageError{errors.New("--stop is empty")}
		}
	}
	return nil
}
