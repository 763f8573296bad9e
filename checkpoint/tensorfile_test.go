package checkpoint

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func openFile(t *testing.T, path string) *TensorFile {
	t.Helper()
	f, err := OpenTensors(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func TestReadsGoldens(t *testing.T) {
	t.Parallel()
	f := openFile(t, filepath.Join(tiny, "qwen3_moe", "golden.safetensors"))
	ids, err := f.Int32s("p1.input_ids")
	if err != nil || len(ids) != 33 {
		t.Fatalf("%v, %v", ids, err)
	}
	for _, id := range ids {
		if id < 0 || id >= 512 {
			t.Errorf("id %d", id)
		}
	}
	logits, err := f.Float32s("p1.logits")
	if err != nil || len(logits) != 33*512 {
		t.Fatalf("%d logits, %v", len(logits), err)
	}
	if _, err := f.Int32s("p1.logits"); err == nil || !strings.Contains(err.Error(), "U8, I32 or I64, found F32") {
		t.Errorf("%v", err)
	}
	if _, err := f.Float32s("p1.input_ids"); err == nil || !strings.Contains(err.Error(), "BF16, F16 or F32, found I32") {
		t.Errorf("%v", err)
	}
	_, err = f.Tensor("p1.layer0.hiden")
	if err == nil || !strings.Contains(err.Error(), "like it: p1.layer0.hidden") {
		t.Errorf("%v", err)
	}
}

func TestInt32s(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ints.safetensors")
	content := file(`{"u":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"l":{"dtype":"I64","shape":[1],"data_offsets":[2,10]},`+
		`"wide":{"dtype":"I64","shape":[1],"data_offsets":[10,18]},"i":{"dtype":"I32","shape":[1],"data_offsets":[18,22]}}`,
		[]byte{1, 255, 0xfe, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x80})
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	f := openFile(t, path)
	for name, want := range map[string][]int32{"u": {1, 255}, "l": {-2}, "i": {math.MinInt32}} {
		if got, err := f.Int32s(name); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := f.Int32s("wide"); err == nil || !strings.Contains(err.Error(), "2147483648") {
		t.Errorf("%v", err)
	}
}

func TestWriteTensors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "out.safetensors")
	tensors := []Floats{
		{Name: "logits", Shape: []int{2, 3}, Data: []float32{1, -2, 3e-45, float32(math.Inf(1)), 0, 0.1}},
		{Name: "with \"quotes\"", Shape: []int{1}, Data: []float32{7}},
		{Name: "none", Shape: []int{0, 5}},
		{Name: "scalar", Data: []float32{4}},
	}
	for range 2 { // the second write replaces the first
		if err := WriteTensors(path, tensors); err != nil {
			t.Fatal(err)
		}
	}
	f := openFile(t, path)
	for _, want := range tensors {
		got, err := f.Float32s(want.Name)
		if err != nil || len(got) != len(want.Data) {
			t.Fatalf("%s: %v, %v", want.Name, got, err)
		}
		for i := range got {
			if got[i] != want.Data[i] {
				t.Errorf("%s[%d] = %v", want.Name, i, got[i])
			}
		}
		if tensor, _ := f.Tensor(want.Name); len(tensor.Shape) != len(want.Shape) {
			t.Errorf("%s: shape %v", want.Name, tensor.Shape)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestWriteTensorsErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one := []float32{1}
	for want, tensors := range map[string][]Floats{
		"as many values as shape [2]": {{Name: "a", Shape: []int{2}, Data: one}},
		"one tensor of this name":     {{Name: "a", Shape: []int{1}, Data: one}, {Name: "a", Shape: []int{1}, Data: one}},
	} {
		if err := WriteTensors(filepath.Join(dir, "x"), tensors); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("expected %q, got %v", want, err)
		}
	}
	if err := WriteTensors(filepath.Join(dir, "missing", "x"), nil); err == nil {
		t.Error("no error for a folder that does not exist")
	}
	blocked := filepath.Join(dir, "folder") // a folder cannot be replaced by a file
	if err := os.MkdirAll(filepath.Join(blocked, "inside"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteTensors(blocked, nil); err == nil || !strings.Contains(err.Error(), blocked) {
		t.Errorf("%v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}
