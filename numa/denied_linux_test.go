package numa_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/moepool/moepool/numa"
)

// denyMemoryCalls is what a container's default filter does: the calls about memory policies say "operation not permitted", in
// all threads and after an exec too.
func denyMemoryCalls(alsoAffinity bool) error {
	if runtime.GOARCH != "amd64" {
		return errors.New("the filter is written for amd64")
	}
	denied := []uint32{unix.SYS_MBIND, unix.SYS_SET_MEMPOLICY, unix.SYS_GET_MEMPOLICY, unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES}
	if alsoAffinity {
		denied = append(denied, unix.SYS_SCHED_SETAFFINITY)
	}
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the number of the call
	for i, number := range denied {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: number, Jt: uint8(len(denied) - i)})
	}
	filter = append(filter,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return nil
}

type deniedReport struct {
	May     numa.Permissions
	Pages   numa.Pages
	Denied  bool // Locate said ErrDenied
	Migrate string
	Prefer  string
}

// deniedRole tries everything under the filter, then binds itself and reports.
func deniedRole() error {
	if err := denyMemoryCalls(os.Getenv("NUMA_TEST_AFFINITY") != ""); err != nil {
		return fmt.Errorf("no filter: %w", err)
	}
	data, err := unix.Mmap(-1, 0, 8*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	for i := range data {
		data[i] = 1
	}
	r := deniedReport{May: numa.Try()}
	r.Pages, err = numa.Locate(data, 0)
	r.Denied = errors.Is(err, numa.ErrDenied)
	if _, err := numa.Migrate(data, 0); err != nil {
		r.Migrate = err.Error()
	}
	if err := numa.Prefer(data, 0, false); err != nil {
		r.Prefer = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return err
	}
	return execRole()
}

// In a container that forbids the calls everything goes on, and what could not be done is said.
func TestDeniedCalls(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("the filter is written for amd64")
	}
	topology, err := numa.Read()
	if err != nil {
		t.Fatal(err)
	}
	many := len(topology.Nodes) > 1
	for _, affinity := range []bool{false, true} {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), roleVariable+"=denied", nodeVariable+"=0", "NUMA_TEST_NEXT=report")
		if affinity {
			cmd.Env = append(cmd.Env, "NUMA_TEST_AFFINITY=1")
		}
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if strings.Contains(stderr.String(), "no filter") {
			t.Skipf("this kernel or container takes no filter: %s", stderr.String())
		}
		if err != nil {
			t.Fatalf("%v: %s", err, stderr.String())
		}
		var d deniedReport
		var r report
		lines := json.NewDecoder(strings.NewReader(string(out)))
		if err := errors.Join(lines.Decode(&d), lines.Decode(&r)); err != nil {
			t.Fatalf("%v in %q", err, out)
		}
		if d.May != (numa.Permissions{SetAffinity: !affinity}) {
			t.Errorf("permissions %+v", d.May)
		}
		if d.Denied != many || d.Pages.Local+d.Pages.Unknown != 8 || (d.Pages.Unknown == 8) != many {
			t.Errorf("where the pages are: %+v, denied %v, with %d nodes", d.Pages, d.Denied, len(topology.Nodes))
		}
		if (d.Migrate != "") != many || d.Prefer == "" {
			t.Errorf("Migrate %q, Prefer %q", d.Migrate, d.Prefer)
		}
		if !r.Bound || r.Binding.Policy != numa.PolicyNone || r.Binding.Affinity == affinity {
			t.Errorf("binding %+v", r.Binding)
		}
		text := strings.Join(r.Binding.Problems, "\n")
		if !strings.Contains(text, "CAP_SYS_NICE") || strings.Contains(text, "affinity can't be set") != affinity {
			t.Errorf("problems: %s", text)
		}
	}
}
