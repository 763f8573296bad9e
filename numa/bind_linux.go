package numa

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// bindThread binds the calling thread, which is locked. undo gives false if the thread could not be made as it was.
func bindThread(n *Node, strict bool) (b *Binding, undo func() bool) {
	b = &Binding{Node: n.ID, CPUs: n.CPUs, Policy: PolicyNone}
	before, err := ThreadAffinity(0)
	if err == nil && len(n.CPUs) > 0 {
		err = SetThreadAffinity(n.CPUs)
	}
	if b.Affinity = err == nil; !b.Affinity {
		b.problem("the CPU affinity can't be set, so threads run on any node: %v", err)
	}
	policy := modePreferred
	if strict {
		policy = modeBind
	}
	earlier, err := threadPolicy()
	if err == nil {
		err = setThreadPolicy(taskPolicy{mode: policy, nodes: []int{n.ID}})
	}
	bound := err == nil
	if bound {
		b.Policy = policy.name()
	} else {
		b.problem("the memory policy can't be set (%v), so pages go to the node of the CPU that first touches them; in a container, "+
			"allow it with CAP_SYS_NICE (docker: --cap-add SYS_NICE)", err)
	}
	return b, func() bool {
		ok := true
		if b.Affinity {
			ok = SetThreadAffinity(before) == nil
		}
		if bound {
			ok = setThreadPolicy(earlier) == nil && ok
		}
		return ok
	}
}

// verify compares the binding with what the kernel says of every thread.
func (b *Binding) verify() {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		b.problem("the threads of this process can't be listed: %v", err)
		return
	}
	for _, entry := range threads {
		thread, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if b.Affinity {
			b.verifyAffinity(thread)
		}
		if b.Policy != PolicyNone {
			b.verifyPolicy(thread)
		}
	}
}

func (b *Binding) verifyAffinity(thread int) {
	cpus, err := ThreadAffinity(thread)
	if err != nil {
		return // the thread has ended
	}
	if len(intersect(cpus, b.CPUs)) != len(cpus) {
		b.Affinity = false
		b.problem("thread %d may run on CPUs %s, outside node %d (%s): something changed the affinity after the start",
			thread, FormatList(cpus), b.Node, FormatList(b.CPUs))
	}
}

// verifyPolicy reads what the first mapping of the thread's numa_maps is under: the thread's own policy, as no mapping has one of
// its own at the start. There is no other way to ask for the policy of another thread.
func (b *Binding) verifyPolicy(thread int) {
	found, err := firstPolicy(fmt.Sprintf("/proc/self/task/%d/numa_maps", thread))
	if err != nil {
		return // the thread has ended, or the kernel was built without it
	}
	want := fmt.Sprintf("prefer:%d", b.Node)
	if b.Policy == PolicyBind {
		want = fmt.Sprintf("bind:%d", b.Node)
	}
	if found != want {
		b.Policy = PolicyNone
		b.problem("thread %d has the memory policy %q, want %q: something changed it after the start", thread, found, want)
	}
}

// firstPolicy reads the second word of the first line; only that line, since the kernel walks the page tables for the others.
func firstPolicy(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	line, err := bufio.NewReaderSize(file, 4096).ReadString('\n')
	words := strings.Fields(line)
	if len(words) < 2 {
		return "", fmt.Errorf("%s: no policy in %q (%v)", name, line, err)
	}
	return words[1], nil
}

// mode is a memory policy of the kernel.
type mode int

const (
	modeDefault   mode = 0
	modePreferred mode = 1
	modeBind      mode = 2
)

func (m mode) name() string {
	switch m {
	case modePreferred:
		return PolicyPreferred
	case modeBind:
		return PolicyBind
	}
	return PolicyNone
}

// taskPolicy is the memory policy of a thread.
type taskPolicy struct {
	mode  mode
	nodes []int
}
