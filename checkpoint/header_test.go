package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// file builds a safetensors file from the JSON of its header and its data.
func file(header string, data []byte) []byte {
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), data...)
}

func TestBadHeaders(t *testing.T) {
	t.Parallel()
	eight := make([]byte, 8)
	length := func(n uint64, rest string) []byte { return append(binary.LittleEndian.AppendUint64(nil, n), rest...) }
	for name, c := range map[string]struct {
		content []byte
		want    []string // all in the error
	}{
		"empty":           {nil, []string{"at least 8 bytes", "found 0 bytes"}},
		"short":           {[]byte("{}"), []string{"at least 8 bytes", "found 2 bytes"}},
		"past the end":    {length(3, "{}"), []string{"within the 10 bytes", "found a header length of 3"}},
		"huge":            {length(1<<63, "{}"), []string{"at most 100000000", "9223372036854775808"}},
		"no JSON":         {file("", nil), []string{"a JSON header", "unexpected EOF"}},
		"a list":          {file("[]", nil), []string{"a JSON object", "["}},
		"cut":             {file(`{"a":{"dtype":"U8","shape":[8]`, eight), []string{"tensor a", "unexpected EOF"}},
		"open":            {file(`{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}`, eight), []string{"a JSON header", "unexpected EOF"}},
		"rest":            {file(`{} {}`, nil), []string{"nothing but spaces", "{"}},
		"not an object":   {file(`{"a":1}`, nil), []string{"tensor a", "dtype, shape and data_offsets"}},
		"no dtype":        {file(`{"a":{"shape":[8],"data_offsets":[0,8]}}`, eight), []string{"tensor a", "dtype missing"}},
		"no shape":        {file(`{"a":{"dtype":"U8","data_offsets":[0,8]}}`, eight), []string{"tensor a", "shape []"}},
		"one offset":      {file(`{"a":{"dtype":"U8","shape":[8],"data_offsets":[8]}}`, eight), []string{"two data_offsets", "[8]"}},
		"three offsets":   {file(`{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8,9]}}`, eight), []string{"two data_offsets", "[0 8 9]"}},
		"unknown type":    {file(`{"a":{"dtype":"Q4","shape":[8],"data_offsets":[0,8]}}`, eight), []string{"tensor a", "BF16", `"Q4"`}},
		"negative":        {file(`{"a":{"dtype":"U8","shape":[-8],"data_offsets":[0,8]}}`, eight), []string{"tensor a", "-8"}},
		"fraction":        {file(`{"a":{"dtype":"U8","shape":[8.5],"data_offsets":[0,8]}}`, eight), []string{"tensor a", "8.5"}},
		"reversed":        {file(`{"a":{"dtype":"U8","shape":[8],"data_offsets":[8,0]}}`, eight), []string{"within the 8 bytes", "[8, 0]"}},
		"outside":         {file(`{"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}}`, eight), []string{"within the 8 bytes", "[0, 9]"}},
		"wrong size":      {file(`{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}`, eight), []string{"12 bytes for F32 [3]", "8 bytes at [0, 8]"}},
		"overflow":        {file(`{"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,8]}}`, eight), []string{"more than 2^61", "8 bytes"}},
		"overflow to 8":   {file(`{"a":{"dtype":"U8","shape":[2305843009213693953,8],"data_offsets":[0,8]}}`, eight), []string{"more than 2^61"}},
		"half a byte":     {file(`{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}}`, eight[:1]), []string{"tensor a", "F4"}},
		"gap":             {file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}`, eight), []string{"tensor b", "offset 2, where a ends", "a gap", "4"}},
		"gap at start":    {file(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}`, eight), []string{"tensor a", "offset 0", "a gap"}},
		"overlap":         {file(`{"a":{"dtype":"U8","shape":[6],"data_offsets":[0,6]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}`, eight), []string{"tensor b", "offset 6", "an overlap"}},
		"unused data":     {file(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}`, eight), []string{"4 bytes of data", "found 8"}},
		"two of a name":   {file(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}`, eight), []string{"tensor a", "found two"}},
		"escaped twin":    {file(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"\u0061":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}`, eight), []string{"tensor a", "found two"}},
		"strange header":  {file(`{"__metadata__":{"a":1}}`, nil), []string{"a JSON header", "number"}},
		"second metadata": {file(`{"__metadata__":{},"__metadata__":{}}`, nil), []string{"__metadata__", "two"}},
	} {
		path := filepath.Join(t.TempDir(), "model.safetensors")
		if err := os.WriteFile(path, c.content, 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := OpenTensors(path)
		if err == nil {
			f.Close()
			t.Errorf("%s: no error", name)
			continue
		}
		var typed *TensorError
		if !errors.As(err, &typed) {
			t.Errorf("%s: %T", name, err)
		}
		for _, want := range append(c.want, path) {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q lacks %q", name, err, want)
			}
		}
	}
}

func TestGoodHeaders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		content []byte
		tensors int
	}{
		"no tensors":   {file("{}", nil), 0},
		"padded":       {file("{}   \n", nil), 0},
		"scalar":       {file(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, make([]byte, 4)), 1},
		"empty tensor": {file(`{"a":{"dtype":"F32","shape":[0,7],"data_offsets":[4,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, make([]byte, 4)), 2},
		"other order":  {file(`{"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}`, make([]byte, 8)), 2},
		"four bits":    {file(`{"a":{"dtype":"F4","shape":[2,3],"data_offsets":[0,3]}}`, make([]byte, 3)), 1},
	} {
		h, err := readHeader(name, bytes.NewReader(c.content), int64(len(c.content)))
		if err != nil || len(h.entries) != c.tensors {
			t.Errorf("%s: %v, %v", name, h, err)
		}
	}
}

func FuzzHeader(f *testing.F) {
	for _, header := range []string{`{}`, `{"a":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]},"__metadata__":{"format":"pt"}}`,
		`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}`} {
		f.Add(file(header, make([]byte, 8)))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		h, err := readHeader("fuzz", bytes.NewReader(content), int64(len(content)))
		if err != nil {
			return
		}
		// An accepted header describes the bytes behind it, each once.
		covered := int64(len(h.raw))
		for _, e := range h.entries {
			if e.begin != covered || e.end < e.begin || e.end > int64(len(content)) {
				t.Fatalf("%s at [%d, %d) of %d bytes, after %d", e.name, e.begin, e.end, len(content), covered)
			}
			covered = e.end
			if e.dtype.Readable() {
				tensor := Tensor{Name: e.name, DType: e.dtype, Shape: e.shape, Data: content[e.begin:e.end]}
				if got := len(tensor.Float32()) * e.dtype.size(); got != len(tensor.Data) {
					t.Fatalf("%s %v has %d bytes of elements, %d of data", e.dtype, e.shape, got, len(tensor.Data))
				}
			}
		}
		if covered != int64(len(content)) {
			t.Fatalf("%d of %d bytes covered", covered, len(content))
		}
	})
}
