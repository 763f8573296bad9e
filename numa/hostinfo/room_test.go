package hostinfo_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/moepool/moepool/numa/hostinfo"
)

func TestRoom(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	limited := func(limit, usage, stat string) map[string]string {
		return map[string]string{
			"proc/meminfo":                 "MemTotal: 1048576 kB\n",
			"proc/self/cgroup":             "0::/\n",
			"proc/self/mountinfo":          "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
			"sys/fs/cgroup/memory.max":     limit,
			"sys/fs/cgroup/memory.current": usage,
			"sys/fs/cgroup/memory.stat":    stat,
		}
	}
	const path = "/sys/fs/cgroup"
	for _, c := range []struct {
		name  string
		files map[string]string
		needs int64
		want  hostinfo.Room
	}{
		{"no groups", nil, 5, hostinfo.Room{Bytes: -1, Limit: -1, Needs: 5, Reason: "no control group limits this process's memory"}},
		{"no limit", limited("max", "5", ""), 0, hostinfo.Room{Bytes: -1, Limit: -1, Reason: "no control group limits this process's memory"}},
		{"a limit of all the host's memory", limited("1073741824", "5242880", ""), 0, hostinfo.Room{
			Bytes: -1, Limit: 1024 * mib, Unreclaimable: 5 * mib, Path: path,
			Reason: "the limit of /sys/fs/cgroup, 1.0 GiB, is not below the host's memory of 1.0 GiB",
		}},
		{"half of it", limited("536870912", "104857600", "active_file 41943040\ninactive_file 20971520\n"), 30 * mib, hostinfo.Room{
			Bytes: (512 - 40 - 30 - 32) * mib, Limit: 512 * mib, Unreclaimable: 40 * mib, Needs: 30 * mib, Reserve: 32 * mib, Path: path,
			Reason: "410 MiB: the limit of /sys/fs/cgroup, 512 MiB, less 40 MiB used that is not page cache, 30 MiB that is still to be taken and 32 MiB in reserve",
		}},
		{"nothing left", limited("67108864", "62914560", ""), 30 * mib, hostinfo.Room{
			Bytes: 0, Limit: 64 * mib, Unreclaimable: 60 * mib, Needs: 30 * mib, Reserve: 16 * mib, Path: path,
			Reason: "0 B: the limit of /sys/fs/cgroup, 64 MiB, less 60 MiB used that is not page cache, 30 MiB that is still to be taken and 16 MiB in reserve",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, host(c.files).Room(c.needs)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
