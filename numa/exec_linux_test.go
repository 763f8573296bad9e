package numa_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/moepool/moepool/internal/leaks"
	"github.com/moepool/moepool/numa"
)

// The test program stands in for a worker: with roleVariable set it binds itself (to nodeVariable) by exec, or reports how it is bound.
const (
	roleVariable = "NUMA_TEST_ROLE"
	nodeVariable = "NUMA_TEST_NODE"
)

var roles = map[string]func() error{
	"exec":   execRole,
	"report": reportRole,
	"denied": deniedRole,
	"place":  placeRole,
}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := roles[role](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaks.VerifyTestMain(m)
}

// execRole is a process that binds itself; what follows the exec is the role in the first argument.
func execRole() error {
	topology, err := numa.Read()
	if err != nil {
		return err
	}
	id, err := strconv.Atoi(os.Getenv(nodeVariable))
	if err != nil {
		return err
	}
	node, err := topology.Node(id)
	if err != nil {
		return err
	}
	// A node that the caller has narrowed stays so.
	if keep := os.Getenv("NUMA_TEST_CPUS"); keep != "" {
		if node.CPUs, err = numa.ParseList(keep); err != nil {
			return err
		}
	}
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, roleVariable+"=") })
	return numa.ExecPinned(node, os.Getenv("NUMA_TEST_STRICT") != "", []string{"bound-worker"}, append(env, roleVariable+"="+os.Getenv("NUMA_TEST_NEXT")))
}

type report struct {
	Bound      bool
	Binding    *numa.Binding
	Name       string
	GOMAXPROCS int
	Threads    map[string]int // affinity → number of threads
	Child      bool           // whether a child of this process takes itself for bound
}

func reportRole() error {
	if os.Getenv("NUMA_TEST_CHILD") != "" {
		_, bound := numa.Bound()
		return json.NewEncoder(os.Stdout).Encode(bound)
	}
	// Threads that are started late count as well.
	var all, ended sync.WaitGroup
	all.Add(8)
	for range 8 {
		ended.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			all.Done()
			all.Wait()
		})
	}
	ended.Wait()
	r := report{Name: os.Args[0], GOMAXPROCS: runtime.GOMAXPROCS(0), Threads: map[string]int{}}
	r.Binding, r.Bound = numa.Bound()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, entry := range threads {
		id, err := strconv.Atoi(entry.Name())
		if err != nil {
			return err
		}
		if cpus, err := numa.ThreadAffinity(id); err == nil {
			r.Threads[numa.FormatList(cpus)]++
		}
	}
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), "NUMA_TEST_CHILD=1")
	out, err := child.Output()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, &r.Child); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// startBound runs the test program bound to a node.
func startBound(t *testing.T, node int, next string, env ...string) ([]byte, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(append(os.Environ(), roleVariable+"=exec", fmt.Sprint(nodeVariable, "=", node), "NUMA_TEST_NEXT="+next), env...)
	out, err := cmd.Output()
	if failed, ok := err.(*exec.ExitError); ok {
		return out, fmt.Errorf("%w: %s", err, failed.Stderr)
	}
	return out, err
}

func boundReport(t *testing.T, node int, env ...string) (r report) {
	t.Helper()
	out, err := startBound(t, node, "report", env...)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return r
}

func TestExecPinned(t *testing.T) {
	t.Parallel()
	topology, err := numa.Read()
	if err != nil {
		t.Fatal(err)
	}
	may := numa.Try()
	for _, node := range topology.ComputeNodes() {
		for _, strict := range []bool{false, true} {
			cpus := node.CPUs[:max(1, len(node.CPUs)-1)] // not all, so that it shows
			// The runtime's number of processors is to come from the affinity, not from a control group's quota.
			env, policy := []string{"NUMA_TEST_CPUS=" + numa.FormatList(cpus), "GODEBUG=containermaxprocs=0"}, numa.PolicyPreferred
			if strict {
				env, policy = append(env, "NUMA_TEST_STRICT=1"), numa.PolicyBind
			}
			if !may.SetMempolicy {
				policy = numa.PolicyNone
			}
			if !may.SetAffinity {
				t.Skip("this process may not set its affinity")
			}
			r := boundReport(t, node.ID, env...)
			if !r.Bound || r.Child || r.Name != "bound-worker" {
				t.Errorf("bound %v, child bound %v, name %q", r.Bound, r.Child, r.Name)
			}
			want := &numa.Binding{Node: node.ID, CPUs: cpus, Affinity: true, Policy: policy}
			if may.SetMempolicy != (len(r.Binding.Problems) == 0) {
				t.Errorf("problems: %q", r.Binding.Problems)
			}
			r.Binding.Problems = nil
			if diff := cmp.Diff(want, r.Binding); diff != "" {
				t.Error(diff)
			}
			if list := numa.FormatList(cpus); len(r.Threads) != 1 || r.Threads[list] < 8 {
				t.Errorf("threads by affinity: %v, want all on %s", r.Threads, list)
			}
			if r.GOMAXPROCS != len(cpus) && os.Getenv("GOMAXPROCS") == "" {
				t.Errorf("GOMAXPROCS %d with %d CPUs", r.GOMAXPROCS, len(cpus))
			}
		}
	}
}

func TestExecPinnedToNoCPU(t *testing.T) {
	t.Parallel()
	before, err := numa.ThreadAffinity(0)
	if err != nil {
		t.Fatal(err)
	}
	r := boundReport(t, 0, fmt.Sprint("NUMA_TEST_CPUS=", 1<<19))
	if !r.Bound || r.Binding.Affinity || len(r.Binding.Problems) == 0 {
		t.Errorf("a CPU that does not exist: %+v", r.Binding)
	}
	if list := numa.FormatList(before); len(r.Threads) != 1 || r.Threads[list] == 0 {
		t.Errorf("threads by affinity: %v, want all on %s as before", r.Threads, list)
	}
}

func TestExecPinnedReturnsOnError(t *testing.T) {
	runtime.LockOSThread() // ExecPinned runs on this thread, so its affinity can be compared
	defer runtime.UnlockOSThread()
	before, err := numa.ThreadAffinity(0)
	if err != nil {
		t.Fatal(err)
	}
	node := &numa.Node{ID: 0, CPUs: before[:1]}
	if err := numa.ExecPinned(node, false, nil, nil); err == nil {
		t.Error("no arguments: no error")
	}
	if err := numa.ExecPinned(node, false, []string{"x"}, []string{"a\x00b"}); err == nil {
		t.Error("an environment with a zero byte: no error")
	}
	after, err := numa.ThreadAffinity(0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the affinity was not given back: %s", diff)
	}
}

func TestBoundWithoutExec(t *testing.T) {
	if _, bound := numa.Bound(); bound {
		t.Error("bound without ExecPinned")
	}
	t.Setenv("MOEPOOL_NUMA_BINDING", "{")
	if _, bound := numa.Bound(); bound {
		t.Error("bound by nonsense")
	}
	// Lies are found out.
	t.Setenv("MOEPOOL_NUMA_BINDING", fmt.Sprintf(`{"process":%d,"node":0,"cpus":[],"affinity":true,"policy":"bind"}`, os.Getpid()))
	b, bound := numa.Bound()
	if !bound || b.Affinity || len(b.Problems) == 0 {
		t.Errorf("a process that was not bound: %+v", b)
	}
}
