package lowmemory

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Group is a memory group below this process's own one (version 1), or beside it (version 2, where a group with processes can't have
// groups below it that are controlled). Its limit counts all memory of its processes, page cache that they brought in included.
type Group struct {
	dir     string
	version int
}

// Usage is what a group's processes have taken.
type Usage struct {
	Peak     int64 // bytes, page cache included; 0 where the kernel doesn't tell (version 2 before Linux 5.19)
	OOMKills int   // processes that the kernel killed for lack of memory
}

// New makes a group with a limit in bytes; the caller closes it. Errors are ErrUnavailable where this host has none to give.
func New(limit int64) (*Group, error) {
	parent, version, err := parentGroup()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	dir, err := os.MkdirTemp(parent, fmt.Sprintf("moepool-%d-", os.Getpid())) // an earlier process of this number may have left one
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	g := &Group{dir: dir, version: version}
	name := map[int]string{1: "memory.limit_in_bytes", 2: "memory.max"}[version]
	if err := g.write(name, strconv.FormatInt(limit, 10)); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrUnavailable, err), g.Close())
	}
	// Swap would be memory beyond the limit. Where there is none, the files may be missing.
	swap, none := "memory.swappiness", "0"
	if version == 2 {
		swap = "memory.swap.max"
	}
	if err := g.write(swap, none); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// parentGroup finds the folder that groups with a memory limit can be made in.
func parentGroup() (dir string, version int, err error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", 0, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", 0, err
	}
	why := errors.New("the memory controller is not mounted")
	for line := range strings.Lines(string(mounts)) {
		before, after, _ := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(kind) < 3 {
			continue
		}
		mount := fields[4]
		switch {
		case kind[0] == "cgroup" && has(kind[2], "memory"):
			if dir = filepath.Join(mount, ownGroup(string(own), "memory")); isDir(dir) {
				return dir, 1, nil
			}
			return mount, 1, nil // a container's own group may be the mount itself
		case kind[0] == "cgroup2":
			dir = filepath.Dir(filepath.Join(mount, ownGroup(string(own), "")))
			if !strings.HasPrefix(dir, mount) || !isDir(dir) {
				dir = mount
			}
			controllers, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
			if err != nil || !strings.Contains(string(controllers), "memory") {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
				why = err
				continue
			}
			return dir, 2, nil
		}
	}
	return "", 0, why
}

// ownGroup is this process's path in a hierarchy of version 1, or of version 2 for "".
func ownGroup(text, controller string) string {
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && (controller == "" && fields[1] == "" || controller != "" && has(fields[1], controller)) {
			return fields[2]
		}
	}
	return "/"
}

func has(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Wrap makes a command that is not started yet run in the group, with all its children.
func (g *Group) Wrap(cmd *exec.Cmd) {
	cmd.Args = append([]string{"sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, g.dir, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
}

// Usage reads what the group has taken so far.
func (g *Group) Usage() (u Usage, err error) {
	if g.version == 1 {
		if u.Peak, err = g.number("memory.max_usage_in_bytes"); err != nil {
			return u, err
		}
		u.OOMKills, err = g.count("memory.oom_control", "oom_kill")
		return u, err
	}
	if u.Peak, err = g.number("memory.peak"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return u, err
	}
	u.OOMKills, err = g.count("memory.events", "oom_kill")
	return u, err
}

// closeLimit is how long Close waits for processes that have ended to leave the group: on a crowded machine a killed one is there until it
// gets a processor.
const closeLimit = time.Minute

// Close removes the group; its processes must have ended.
func (g *Group) Close() error {
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := os.Remove(g.dir)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if time.Since(begin) > closeLimit {
			return fmt.Errorf("removing the memory group: %w", err)
		}
	}
}

func (g *Group) write(name, text string) error {
	f, err := os.OpenFile(filepath.Join(g.dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func (g *Group) number(name string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(g.dir, name))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// count reads a line "key number".
func (g *Group) count(name, key string) (int, error) {
	text, err := os.ReadFile(filepath.Join(g.dir, name))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, key+" "); found {
			return strconv.Atoi(strings.TrimSpace(value))
		}
	}
	return 0, fmt.Errorf("%s has no %s", name, key)
}
