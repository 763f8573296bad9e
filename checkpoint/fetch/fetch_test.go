package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/internal/leaks"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// memory is a store in memory that counts and fails when it is told to.
type memory struct {
	mu         sync.Mutex
	objects    map[string][]byte
	puts, gets int
	failAfter  int // gets; 0 is never
	spoil      string
	bytesGiven int64
}

var errBroken = errors.New("the line is broken")

func (s *memory) Has(_ context.Context, name string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := s.objects[name]
	return found, nil
}

func (s *memory) Put(_ context.Context, name string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.puts++
	s.objects[name] = bytes.Clone(data)
	return nil
}

func (s *memory) Get(_ context.Context, name string, limit int) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, found := s.objects[name]
	if s.gets++; s.failAfter > 0 && s.gets > s.failAfter {
		return nil, errBroken
	}
	switch {
	case !found:
		return nil, ErrNotOffered
	case len(data) > limit:
		return nil, fmt.Errorf("%d bytes", len(data))
	case name == s.spoil:
		data = bytes.Clone(data)
		data[len(data)/2] ^= 1
	}
	s.bytesGiven += int64(len(data))
	return data, nil
}

func (s *memory) Delete(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, name)
	return nil
}

const testPiece = 10_000

// model writes a model in several files and opens it.
func model(t *testing.T, seed uint64, shardBytes int64) *checkpoint.Checkpoint {
	t.Helper()
	spec := synth.Tiny("qwen3_moe")
	spec.Seed, spec.ShardBytes = seed, shardBytes
	dir := t.TempDir()
	if err := synth.Write(dir, spec, nil); err != nil {
		t.Fatal(err)
	}
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func silent(string, int64, int64) {}

func offerTest(t *testing.T, s *memory, c *checkpoint.Checkpoint) *Manifest {
	t.Helper()
	if _, err := offer(t.Context(), s, c, testPiece, silent); err != nil {
		t.Fatal(err)
	}
	m, err := Read(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func open(t *testing.T, s *memory, m *Manifest, dir string) (*Folder, *checkpoint.Checkpoint) {
	t.Helper()
	f, c, err := Open(t.Context(), s, m, dir, silent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return f, c
}

func names(t *testing.T, dir, pattern string) (all []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		all = append(all, filepath.Base(p))
	}
	return all
}

// expert gives the bytes of an expert's tensors.
func expert(c *checkpoint.Checkpoint, layer, number int) ([]byte, error) {
	n := c.Config().Expert(layer, number)
	var all []byte
	for _, name := range []string{n.Gate, n.Up, n.Down} {
		tensor, err := c.Tensor(name)
		if err != nil {
			return nil, err
		}
		all = append(all, tensor.Data...)
	}
	return all, nil
}

// fetchExpert fetches what an expert needs, and gives its bytes.
func fetchExpert(t *testing.T, f *Folder, c *checkpoint.Checkpoint, layer, number int) ([]byte, error) {
	t.Helper()
	for range 10 {
		data, err := expert(c, layer, number)
		absent := (*checkpoint.AbsentError)(nil)
		if !errors.As(err, &absent) {
			return data, err
		}
		if err := f.Fetch(t.Context(), absent.File); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("fetched again and again")
}

// TestFetchWhatIsNeeded: an empty folder gets the configuration, headers, and the file that holds an expert, whose bytes are the original's; a second
// process takes nothing again; the digest is the whole model's throughout.
func TestFetchWhatIsNeeded(t *testing.T) {
	t.Parallel()
	source, s := model(t, 1, 200_000), &memory{objects: map[string][]byte{}}
	m := offerTest(t, s, source)
	want, err := expert(source, 2, 5)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "new")
	f, c := open(t, s, m, dir)
	if whole := names(t, dir, "*.safetensors"); len(whole) != 0 {
		t.Fatalf("fetched unasked: %v", whole)
	}
	if mine, _ := c.Digest(); mine != m.Model {
		t.Fatalf("digest %s, the model's is %s", mine, m.Model)
	}
	got, err := fetchExpert(t, f, c, 2, 5)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%v, %d bytes", err, len(got))
	}
	whole, all := names(t, dir, "*.safetensors"), names(t, source.Dir(), "*.safetensors")
	if len(whole) == 0 || len(whole) > 2 || len(all) < 5 {
		t.Fatalf("fetched %v of %v", whole, all)
	}
	if here := names(t, dir, "tokenizer*"); len(here) != 0 {
		t.Errorf("fetched %v", here)
	}
	before := s.gets
	f2, c2 := open(t, s, m, dir)
	if got, err = fetchExpert(t, f2, c2, 2, 5); err != nil || !bytes.Equal(got, want) {
		t.Fatal(err)
	}
	if s.gets != before {
		t.Errorf("%d pieces were taken again", s.gets-before)
	}
	for layer := range c2.Config().Layers {
		for e := range c2.Config().Experts {
			if !c2.Config().Layers[layer].MoE {
				continue
			}
			want, _ := expert(source, layer, e)
			if got, err := fetchExpert(t, f2, c2, layer, e); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("layer %d expert %d: %v", layer, e, err)
			}
		}
	}
	if left := names(t, dir, "*.partial"); len(left) > len(all) {
		t.Errorf("left: %v", left)
	}
}

// TestResume: a transfer that breaks anywhere goes on where it was; no piece comes twice.
func TestResume(t *testing.T) {
	t.Parallel()
	source, s := model(t, 1, 0), &memory{objects: map[string][]byte{}}
	m := offerTest(t, s, source)
	want, _ := expert(source, 0, 7)
	dir, total := t.TempDir(), 0
	for i := range m.Files {
		if m.Files[i].weights() || slices.Contains([]string{"config.json", "generation_config.json"}, m.Files[i].Name) {
			total += len(m.Files[i].Pieces)
		}
	}
	if total < 20 {
		t.Fatalf("only %d pieces", total)
	}
	breaks := 0
	for done := false; !done; {
		s.failAfter = s.gets + 7
		f, c, err := Open(t.Context(), s, m, dir, silent)
		if err == nil {
			var got []byte
			if got, err = fetchExpert(t, f, c, 0, 7); err == nil {
				done = bytes.Equal(got, want)
				if !done {
					t.Fatal("other bytes")
				}
			}
			c.Close()
		}
		if err != nil && !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
		breaks++
	}
	if breaks < 3 || s.gets != total+(breaks-1)+2 { // twice the manifest
		t.Errorf("%d pieces in %d gets and %d breaks", total, s.gets, breaks)
	}
}

// TestShared: several workers of one host fill one folder at once; each piece of weights comes once.
func TestShared(t *testing.T) {
	t.Parallel()
	source, s := model(t, 1, 200_000), &memory{objects: map[string][]byte{}}
	m := offerTest(t, s, source)
	want, _ := expert(source, 2, 5)
	dir := t.TempDir()
	before := s.bytesGiven
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			f, c, err := Open(t.Context(), s, m, dir, silent)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			for i := range m.Files {
				if !m.Files[i].weights() {
					continue
				}
				if err := f.Fetch(t.Context(), m.Files[i].Name); err != nil {
					t.Error(err)
				}
			}
			if got, err := expert(c, 2, 5); err != nil || !bytes.Equal(got, want) {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	total := int64(0)
	for i := range m.Files {
		if m.Files[i].weights() || strings.HasSuffix(m.Files[i].Name, "config.json") && !strings.HasPrefix(m.Files[i].Name, "tokenizer") || strings.HasSuffix(m.Files[i].Name, "index.json") {
			total += m.Files[i].Size
		}
	}
	if s.bytesGiven-before != total {
		t.Errorf("%d bytes were taken, the files have %d", s.bytesGiven-before, total)
	}
}

// TestSpoilt: a piece that is not what its name says, on the way or on the disk, is never taken.
func TestSpoilt(t *testing.T) {
	t.Parallel()
	source, s := model(t, 1, 0), &memory{objects: map[string][]byte{}}
	m := offerTest(t, s, source)
	weights := &m.Files[slices.IndexFunc(m.Files, func(f File) bool { return f.weights() })]
	dir := t.TempDir()
	f, _ := open(t, s, m, dir)
	s.spoil = weights.Pieces[len(weights.Pieces)-1]
	if err := f.Fetch(t.Context(), weights.Name); err == nil || !strings.Contains(err.Error(), s.spoil) {
		t.Fatal(err)
	}
	path := filepath.Join(dir, weights.Name+partialSuffix)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	s.spoil = ""
	if err := f.Fetch(t.Context(), weights.Name); err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(filepath.Join(dir, weights.Name))
	want, _ := os.ReadFile(filepath.Join(source.Dir(), weights.Name))
	if !bytes.Equal(got, want) {
		t.Fatal("other bytes")
	}
}

// TestOfferAgain: what is offered already is not sent again, an offer that was stopped goes on, and another model takes the former's place.
func TestOfferAgain(t *testing.T) {
	t.Parallel()
	first, second, s := model(t, 1, 200_000), model(t, 2, 200_000), &memory{objects: map[string][]byte{}}
	offerTest(t, s, first)
	puts := s.puts
	offerTest(t, s, first)
	if s.puts != puts {
		t.Errorf("%d objects were sent again", s.puts-puts)
	}
	delete(s.objects, manifestName)
	offerTest(t, s, first)
	if s.puts != puts+1 {
		t.Errorf("%d objects were sent again", s.puts-puts-1)
	}
	m := offerTest(t, s, second)
	for i := range m.Files {
		for _, p := range m.Files[i].Pieces {
			if s.objects[p] == nil {
				t.Fatalf("piece %s of %s is missing", p, m.Files[i].Name)
			}
		}
	}
	distinct := map[string]bool{manifestName: true}
	for i := range m.Files {
		for _, p := range m.Files[i].Pieces {
			distinct[p] = true
		}
	}
	if len(s.objects) != len(distinct) {
		t.Errorf("%d objects, the second model has %d", len(s.objects), len(distinct))
	}
	// A folder of the first model is not mixed with the second.
	if _, _, err := Open(t.Context(), s, m, first.Dir(), silent); err == nil || !strings.Contains(err.Error(), "another model") {
		t.Errorf("another model's folder: %v", err)
	}
}

// TestHostileManifest: names that leave the folder, sizes and counts that can't be, are refused before anything is taken.
func TestHostileManifest(t *testing.T) {
	t.Parallel()
	s := &memory{objects: map[string][]byte{}}
	good := offerTest(t, s, model(t, 1, 0))
	for name, change := range map[string]func(m *Manifest, f *File){
		"folder":     func(_ *Manifest, f *File) { f.Name = "../x" },
		"absolute":   func(_ *Manifest, f *File) { f.Name = "/etc/x" },
		"hidden":     func(_ *Manifest, f *File) { f.Name = ".x" },
		"twice":      func(m *Manifest, f *File) { f.Name = m.Files[1].Name },
		"negative":   func(_ *Manifest, f *File) { f.Size = -1 },
		"huge":       func(_ *Manifest, f *File) { f.Size = 1 << 62 },
		"pieces":     func(_ *Manifest, f *File) { f.Pieces = f.Pieces[1:] },
		"digest":     func(_ *Manifest, f *File) { f.Pieces[0] = "../x" },
		"header":     func(_ *Manifest, f *File) { f.Header = f.Size + 1 },
		"piece size": func(m *Manifest, _ *File) { m.Piece = 0 },
		"large":      func(m *Manifest, _ *File) { m.Piece = 1 << 40 },
		"format":     func(m *Manifest, _ *File) { m.Format = 2 },
		"model":      func(m *Manifest, _ *File) { m.Model = "" },
	} {
		m := *good
		m.Files = slices.Clone(good.Files)
		m.Files[0].Pieces = slices.Clone(good.Files[0].Pieces)
		change(&m, &m.Files[0])
		if m.check() == nil {
			t.Errorf("%s: taken", name)
		}
	}
	for _, text := range []string{"", "{", "[]", `{"format":1,"unknown":2}`} {
		s.objects[manifestName] = []byte(text)
		if _, err := Read(t.Context(), s); err == nil {
			t.Errorf("%q: taken", text)
		}
	}
	delete(s.objects, manifestName)
	if _, err := Read(t.Context(), s); !errors.Is(err, ErrNotOffered) {
		t.Error(err)
	}
}
