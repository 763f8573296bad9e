package arena

import (
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnonymous(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 4097, hugePage, 3*hugePage + 5} {
		data, free, err := Anonymous(n, "test")
		if err != nil {
			t.Fatal(err)
		}
		if len(data) != n || cap(data) > n {
			t.Errorf("%d bytes, capacity %d, wanted %d", len(data), cap(data), n)
		}
		for i := range data {
			if data[i] != 0 {
				t.Fatalf("byte %d of %d is %d", i, n, data[i])
			}
			data[i] = byte(i)
		}
		unit := uintptr(pageBytes)
		if n >= hugePage && runtime.GOOS == "linux" {
			unit = hugePage
		}
		if n > 0 && address(data)%unit != 0 {
			t.Errorf("%d bytes at %#x", n, address(data))
		}
		free()
		free()
	}
	for _, n := range []int{-1, math.MaxInt, math.MaxInt - 3*hugePage, math.MaxInt / 2} {
		if _, _, err := Anonymous(n, "dense weights"); err == nil || !strings.Contains(err.Error(), "dense weights") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestDefaultDir(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	dir, err := DefaultDir()
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Base(dir) != "arena" || filepath.Base(filepath.Dir(dir)) != "moepool" {
		t.Error(dir)
	}
	if runtime.GOOS == "linux" && dir != filepath.Join(cache, "moepool", "arena") {
		t.Error(dir)
	}
}

const smaps = `7f0000000000-7f0000400000 r--s 00200000 fe:00 12  /cache/layer-00000-part-000.arena
Size:               4096 kB
Rss:                3072 kB
Pss:                3072 kB
AnonHugePages:         0 kB
ShmemPmdMapped:        0 kB
FilePmdMapped:      2048 kB
VmFlags: rd sh mr mw me ms sd hg
7f0000400000-7f0000500000 rw-p 00000000 00:00 0
Rss:                 512 kB
AnonHugePages:       512 kB
7f0000600000-7f0000a00000 rw-p 00000000 00:00 0 [anon:moepool arena]
Rss:                4096 kB
AnonHugePages:      4096 kB
FilePmdMapped:         0 kB
7f0000a00000-7f0000c00000 r--s 00200000 00:19 12  /dev/shm/layer-00001-part-000.arena
Rss:                2048 kB
ShmemPmdMapped:     2048 kB
`

func TestSumSmaps(t *testing.T) {
	t.Parallel()
	got, err := sumSmaps(strings.NewReader(smaps), []span{{0x7f0000000000, 0x7f0000400000}, {0x7f0000600000, 0x7f0000800000},
		{0x7f0000a00000, 0x7f0000c00000}})
	want := HugePages{Resident: 9 << 20, File: 4 << 20, Anonymous: 4 << 20}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if got.Share() < 0.88 || got.Share() > 0.89 || (HugePages{}).Share() != 0 {
		t.Error(got.Share())
	}
	if _, err := sumSmaps(strings.NewReader("7f00-7f01 r\nRss: x kB\n"), []span{{0, math.MaxUint64}}); err == nil {
		t.Error("a line that is no number was read")
	}
}
