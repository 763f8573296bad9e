package arena

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// small is a geometry for tests that look at bytes.
var small = Geometry{Slots: 4, SlotBytes: 9001}

func writeAt(t *testing.T, path string, offset int64, b ...byte) {
	t.Helper()
	edit(t, path, func(f *os.File) error {
		_, err := f.WriteAt(b, offset)
		return err
	})
}

func flipAt(t *testing.T, path string, offset int64) {
	t.Helper()
	edit(t, path, func(f *os.File) error {
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, offset); err != nil {
			return err
		}
		b[0] ^= 0x10
		_, err := f.WriteAt(b, offset)
		return err
	})
}

// Each kind of file that doesn't fit is rebuilt, and said why.
func TestMismatchRebuilds(t *testing.T) {
	t.Parallel()
	l, err := newLayout(small)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil    func(t *testing.T, path string)
		options  Options
		geometry Geometry
		why      string
	}{
		"identity":      {options: Options{Identity: "another digest"}, why: "another model, format or number of parts"},
		"more slots":    {geometry: Geometry{Slots: 5, SlotBytes: 9001}, why: "with 4 slots of 9001 bytes, wanted layer 3 part 1 with 5 slots"},
		"larger slots":  {geometry: Geometry{Slots: 4, SlotBytes: 9002}, why: "slots of 9002 bytes"},
		"version":       {spoil: func(t *testing.T, p string) { writeAt(t, p, 16, 2) }, why: "version 2"},
		"foreign":       {spoil: func(t *testing.T, p string) { writeAt(t, p, 0, []byte("SQLite format 3")...) }, why: "not an arena file"},
		"empty":         {spoil: func(t *testing.T, p string) { truncate(t, p, 0) }, why: "not an arena file"},
		"few bytes":     {spoil: func(t *testing.T, p string) { truncate(t, p, 50) }, why: "not an arena file"},
		"cut in header": {spoil: func(t *testing.T, p string) { truncate(t, p, 4000) }, why: "4000 bytes instead of"},
		"cut in slots":  {spoil: func(t *testing.T, p string) { truncate(t, p, l.size-1) }, why: "bytes instead of"},
		"longer":        {spoil: func(t *testing.T, p string) { truncate(t, p, l.size+1) }, why: "bytes instead of"},
		"header":        {spoil: func(t *testing.T, p string) { flipAt(t, p, 40) }, why: "header is damaged"},
		"header sum":    {spoil: func(t *testing.T, p string) { flipAt(t, p, 99) }, why: "header is damaged"},
		"other layer": {spoil: func(t *testing.T, p string) {
			if err := os.Rename(filepath.Join(filepath.Dir(p), fileName(Key{4, 1})), p); err != nil {
				t.Fatal(err)
			}
		}, why: "it is layer 4 part 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := openStore(t, Options{Dir: dir})
			for _, k := range []Key{testKey, {4, 1}} {
				a, err := s.Open(k, small)
				if err != nil {
					t.Fatal(err)
				}
				fill(t, a, 1, 0, 2)
			}
			path := openArena(t, s, small).path
			closeStore(t, s)
			if c.spoil != nil {
				c.spoil(t, path)
			}
			var log lines
			o := c.options
			o.Dir, o.Log = dir, log.log
			s = openStore(t, o)
			g := c.geometry
			if g == (Geometry{}) {
				g = small
			}
			a := openArena(t, s, g)
			for slot := range g.Slots {
				if a.Valid(slot) {
					t.Errorf("slot %d is valid", slot)
				}
			}
			if log.count(c.why) != 1 {
				t.Errorf("the log should say %q once:\n%s", c.why, &log)
			}
			want := Counters{Files: 1, RebuiltFiles: 1}
			if got := s.Counters(); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			fill(t, a, 7, 1, 3)
			closeStore(t, s)
			s = openStore(t, o)
			a = openArena(t, s, g)
			bring(t, a, 7, 1, 3)
			if got := s.Counters(); got.RebuiltFiles != 0 || got.ReusedBytes != 2*int64(g.SlotBytes) {
				t.Errorf("after the rebuild: %+v", got)
			}
		})
	}
}

func truncate(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

// A rebuild makes a new file: a process that still maps the old one keeps its pages.
func TestRebuildLeavesTheOldFileAlone(t *testing.T) {
	t.Parallel()
	dir, path := packed(t, small, 0)
	old, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	openArena(t, openStore(t, Options{Dir: dir, Identity: "another"}), small)
	l, _ := newLayout(small)
	b := make([]byte, small.SlotBytes)
	if _, err := old.ReadAt(b, l.offset(0)); err != nil || !bytes.Equal(b, content(0, 1, len(b))) {
		t.Error("the old file was changed", err)
	}
}

func TestForeignFilesStay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"notes.txt", "layer-3.arena", "layer-00003-part-001.arena.bak", "layer-00009-part-000.arena"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := openStore(t, Options{Dir: dir})
	a := openArena(t, s, small)
	fill(t, a, 1, 0)
	closeStore(t, s)
	for _, name := range []string{"notes.txt", "layer-3.arena", "layer-00003-part-001.arena.bak", "layer-00009-part-000.arena"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != name {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

// Things under an arena file's name that are no regular files are neither followed nor removed.
func TestNoRegularFile(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(path string) error{
		"link": func(path string) error {
			target := filepath.Join(filepath.Dir(path), "precious")
			return errors.Join(os.WriteFile(target, []byte("precious"), 0o600), os.Symlink(target, path))
		},
		"folder": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, fileName(testKey))
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		before, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		var log lines
		s := openStore(t, Options{Dir: dir, Log: log.log})
		a := openArena(t, s, small)
		fill(t, a, 1, 0, 3)
		bring(t, a, 1, 0, 3)
		if c := s.Counters(); !a.Anonymous() || c.Fallbacks != 1 || c.Files != 0 || log.count(path) != 1 {
			t.Errorf("%s: %+v\n%s", name, c, &log)
		}
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s was replaced: %v", name, err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "precious")); name == "link" && (err != nil || string(b) != "precious") {
			t.Errorf("a link was followed: %q, %v", b, err)
		}
	}
}

func TestTornSlotIsNeverServed(t *testing.T) {
	t.Parallel()
	l, _ := newLayout(small)
	for name, offset := range map[string]int64{
		"first byte": l.offset(2), "last byte": l.offset(2) + l.slotBytes - 1, "checksum": entryOffset(2) + 9,
		"state": entryOffset(2), "check": entryOffset(2) + 20,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, path := packed(t, small, 0, 2)
			flipAt(t, path, offset)
			s := openStore(t, Options{Dir: dir})
			a := openArena(t, s, small)
			inBytes := offset >= l.first
			if a.Valid(2) != inBytes {
				t.Errorf("valid %v", a.Valid(2))
			}
			want := ErrNotFilled
			if inBytes {
				want = ErrTorn
			}
			for range 2 {
				if _, err := a.Bring(2); !errors.Is(err, want) {
					t.Errorf("Bring: %v", err)
				}
				if a.Valid(2) || a.Bytes(2) != nil || a.Resident(2) {
					t.Error("a torn slot is served")
				}
			}
			bring(t, a, 1, 0)
			if c := s.Counters(); (c.TornSlots == 1) != inBytes || c.Bytes != l.slotBytes || c.ReusedBytes != l.slotBytes {
				t.Errorf("%+v", c)
			}
			closeStore(t, s)
			s = openStore(t, Options{Dir: dir}) // it stays unmarked
			a = openArena(t, s, small)
			if a.Valid(2) {
				t.Error("a torn slot is valid again")
			}
			fill(t, a, 1, 2)
			bring(t, a, 1, 0, 2)
		})
	}
}
