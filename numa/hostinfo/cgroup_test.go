package hostinfo_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/moepool/moepool/numa/hostinfo"
)

const noLimitV1 = "9223372036854771712\n"

func TestCgroup(t *testing.T) {
	t.Parallel()
	const (
		v2Mount  = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		v1Mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n" +
			"35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
			"36 31 0:33 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
	)
	none := hostinfo.Cgroup{Limit: hostinfo.Unlimited, Available: hostinfo.Unlimited}
	for _, c := range []struct {
		name  string
		files map[string]string
		want  hostinfo.Cgroup
	}{
		{"no files", nil, none},
		{"version 2 without limits", map[string]string{
			"proc/self/cgroup":                                "0::/user.slice/a.scope\n",
			"proc/self/mountinfo":                             v2Mount,
			"sys/fs/cgroup/user.slice/a.scope/memory.max":     "max\n",
			"sys/fs/cgroup/user.slice/a.scope/memory.current": "500\n",
			"sys/fs/cgroup/user.slice/a.scope/cpu.max":        "max 100000\n",
		}, hostinfo.Cgroup{Version: 2, Path: "/sys/fs/cgroup/user.slice/a.scope", Limit: hostinfo.Unlimited, Usage: 500, Available: hostinfo.Unlimited}},
		{"version 2: the limit of the group around it counts", map[string]string{
			"proc/self/cgroup":                         "0::/outer/inner\n",
			"proc/self/mountinfo":                      v2Mount,
			"sys/fs/cgroup/outer/inner/memory.max":     "5000\n",
			"sys/fs/cgroup/outer/inner/memory.current": "400\n",
			"sys/fs/cgroup/outer/inner/cpu.max":        "300000 100000\n",
			"sys/fs/cgroup/outer/memory.max":           "max\n",
			"sys/fs/cgroup/outer/memory.high":          "2000\n",
			"sys/fs/cgroup/outer/memory.current":       "1500\n",
			"sys/fs/cgroup/outer/memory.stat":          "anon 300\nactive_file 400\ninactive_file 550\nslab_reclaimable 50\n",
			"sys/fs/cgroup/outer/cpu.max":              "150000 100000\n",
		}, hostinfo.Cgroup{Version: 2, Path: "/sys/fs/cgroup/outer", Limit: 2000, Usage: 1500, Available: 1500, CPUs: 1.5,
			Tightest: hostinfo.CgroupUse{Path: "/sys/fs/cgroup/outer", Limit: 2000, Usage: 1500, Unreclaimable: 500}}},
		{"version 2: the smallest room, not the smallest limit, is available", map[string]string{
			"proc/self/cgroup":                         "0::/outer/inner\n",
			"proc/self/mountinfo":                      v2Mount,
			"sys/fs/cgroup/outer/inner/memory.max":     "1000\n",
			"sys/fs/cgroup/outer/inner/memory.current": "100\n",
			"sys/fs/cgroup/outer/memory.max":           "3000\n",
			"sys/fs/cgroup/outer/memory.current":       "2900\n",
		}, hostinfo.Cgroup{Version: 2, Path: "/sys/fs/cgroup/outer/inner", Limit: 1000, Usage: 100, Available: 100,
			Tightest: hostinfo.CgroupUse{Path: "/sys/fs/cgroup/outer", Limit: 3000, Usage: 2900, Unreclaimable: 2900}}},
		{"version 2 in a container: its group is the mount", map[string]string{
			"proc/self/cgroup":             "0::/docker/abc\n",
			"proc/self/mountinfo":          "30 24 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
			"sys/fs/cgroup/memory.max":     "4000\n",
			"sys/fs/cgroup/memory.current": "5000\n", // just lowered
		}, hostinfo.Cgroup{Version: 2, Path: "/sys/fs/cgroup", Limit: 4000, Usage: 5000, Available: 0,
			Tightest: hostinfo.CgroupUse{Path: "/sys/fs/cgroup", Limit: 4000, Usage: 5000, Unreclaimable: 5000}}},
		{"version 2: a group outside of what is mounted", map[string]string{
			"proc/self/cgroup":             "0::/../../other\n",
			"proc/self/mountinfo":          v2Mount,
			"sys/fs/cgroup/memory.max":     "4000\n",
			"sys/fs/cgroup/memory.current": "1\n",
		}, hostinfo.Cgroup{Version: 2, Path: "/sys/fs/cgroup", Limit: 4000, Usage: 1, Available: 3999,
			Tightest: hostinfo.CgroupUse{Path: "/sys/fs/cgroup", Limit: 4000, Usage: 1, Unreclaimable: 1}}},
		{"version 1", map[string]string{
			"proc/self/cgroup":                                "4:memory:/job\n2:cpu,cpuacct:/job\n1:name=systemd:/\n0::/\n",
			"proc/self/mountinfo":                             v1Mounts,
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes":  "8000\n",
			"sys/fs/cgroup/memory/job/memory.usage_in_bytes":  "3000\n",
			"sys/fs/cgroup/memory/job/memory.stat":            "active_file 5\ntotal_active_file 500\ntotal_inactive_file 1500\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":      noLimitV1,
			"sys/fs/cgroup/memory/memory.usage_in_bytes":      "90000\n",
			"sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us":  "50000\n",
			"sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us":      "-1\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us":     "100000\n",
		}, hostinfo.Cgroup{Version: 1, Path: "/sys/fs/cgroup/memory/job", Limit: 8000, Usage: 3000, Available: 7000, CPUs: 0.5,
			Tightest: hostinfo.CgroupUse{Path: "/sys/fs/cgroup/memory/job", Limit: 8000, Usage: 3000, Unreclaimable: 1000}}},
		{"version 1, nested: the group around it has a higher limit and less room", map[string]string{
			"proc/self/cgroup":    "4:memory:/jobs/one/worker\n",
			"proc/self/mountinfo": v1Mounts,
			"sys/fs/cgroup/memory/jobs/one/worker/memory.limit_in_bytes": noLimitV1,
			"sys/fs/cgroup/memory/jobs/one/worker/memory.usage_in_bytes": "500\n",
			"sys/fs/cgroup/memory/jobs/one/memory.limit_in_bytes":        "4000\n",
			"sys/fs/cgroup/memory/jobs/one/memory.usage_in_bytes":        "700\n",
			"sys/fs/cgroup/memory/jobs/one/memory.stat":                  "total_active_file 100\n",
			"sys/fs/cgroup/memory/jobs/memory.limit_in_bytes":            "9000\n",
			"sys/fs/cgroup/memory/jobs/memory.usage_in_bytes":            "8500\n",
			"sys/fs/cgroup/memory/jobs/memory.stat":                      "total_inactive_file 500\ntotal_unevictable 2000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":                 noLimitV1,
			"sys/fs/cgroup/memory/memory.usage_in_bytes":                 "90000\n",
		}, hostinfo.Cgroup{Version: 1, Path: "/sys/fs/cgroup/memory/jobs/one", Limit: 4000, Usage: 700, Available: 1000,
			Tightest: hostinfo.CgroupUse{Path: "/sys/fs/cgroup/memory/jobs", Limit: 9000, Usage: 8500, Unreclaimable: 8000}}},
		{"version 1 with version 2 beside it", map[string]string{
			"proc/self/cgroup":                           "4:memory:/\n0::/\n",
			"proc/self/mountinfo":                        v1Mounts + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": noLimitV1,
			"sys/fs/cgroup/memory/memory.usage_in_bytes": "77\n",
		}, hostinfo.Cgroup{Version: 1, Path: "/sys/fs/cgroup/memory", Limit: hostinfo.Unlimited, Usage: 77, Available: hostinfo.Unlimited}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, host(c.files).Cgroup()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
