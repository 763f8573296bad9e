package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"sort"
)

// maxHeader is the longest header that the safetensors format allows, in bytes.
const maxHeader = 100_000_000

// entry is a tensor as the header describes it; begin and end count from the start of the file.
type entry struct {
	name       string
	dtype      DType
	shape      []int
	begin, end int64
}

// header is the parsed and checked header of a safetensors file.
type header struct {
	entries []entry // ascending offsets
	raw     []byte  // the header's bytes, length prefix included
}

// readHeader reads and checks the header of a safetensors file of the given size. The format: 8 bytes little-endian length N, N
// bytes JSON {"name": {"dtype", "shape", "data_offsets": [begin, end]}}, then data, whose offsets count from its own start.
func readHeader(file string, r io.ReaderAt, size int64) (*header, error) {
	fail := func(expected, found string, args ...any) error {
		return &TensorError{File: file, Expected: expected, Found: fmt.Sprintf(found, args...)}
	}
	var prefix [8]byte
	if size < int64(len(prefix)) {
		return nil, fail("a safetensors file of at least 8 bytes", "%d bytes", size)
	}
	if _, err := r.ReadAt(prefix[:], 0); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	length := binary.LittleEndian.Uint64(prefix[:])
	if length > maxHeader {
		return nil, fail(fmt.Sprintf("a header of at most %d bytes", maxHeader), "a header length of %d", length)
	}
	if int64(length) > size-8 {
		return nil, fail(fmt.Sprintf("a header within the %d bytes of the file", size), "a header length of %d", length)
	}
	raw := make([]byte, 8+length)
	if _, err := r.ReadAt(raw, 0); err != nil && !(errors.Is(err, io.EOF) && int64(len(raw)) == size) {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	h, err := parseHeader(file, raw[8:], size-int64(len(raw)))
	if err != nil {
		return nil, err
	}
	h.raw = raw
	for i := range h.entries {
		h.entries[i].begin += int64(len(raw))
		h.entries[i].end += int64(len(raw))
	}
	return h, nil
}

// parseHeader parses the JSON of a header. dataSize is the number of bytes after it; the tensors must cover them exactly,
// without gaps or overlaps. Offsets in the result count from the start of the data.
func parseHeader(file string, text []byte, dataSize int64) (*header, error) {
	syntax := func(err error) error {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return &TensorError{File: file, Expected: "a JSON header", Found: err.Error()}
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	open, err := decoder.Token()
	if err != nil {
		return nil, syntax(err)
	}
	if open != json.Delim('{') {
		return nil, &TensorError{File: file, Expected: "a JSON object as header", Found: fmt.Sprint(open)}
	}
	h := &header{}
	seen := map[string]bool{}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, syntax(err)
		}
		name, isText := key.(string)
		if !isText {
			return nil, syntax(fmt.Errorf("key %v", key))
		}
		if seen[name] {
			return nil, &TensorError{File: file, Tensor: name, Expected: "one entry in the header", Found: "two"}
		}
		seen[name] = true
		if name == "__metadata__" {
			var metadata map[string]string // nothing in it is needed
			if err := decoder.Decode(&metadata); err != nil {
				return nil, syntax(err)
			}
			continue
		}
		e, err := parseEntry(file, name, decoder, dataSize)
		if err != nil {
			return nil, err
		}
		h.entries = append(h.entries, e)
	}
	if _, err := decoder.Token(); err != nil {
		return nil, syntax(err)
	}
	if rest, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, &TensorError{File: file, Expected: "nothing but spaces after the header's JSON", Found: fmt.Sprint(rest)}
	}
	return h, checkCover(file, h.entries, dataSize)
}

// parseEntry reads one tensor's description and checks its size against its own offsets and the data.
func parseEntry(file, name string, decoder *json.Decoder, dataSize int64) (entry, error) {
	fail := func(expected, found string) (entry, error) {
		return entry{}, &TensorError{File: file, Tensor: name, Expected: expected, Found: found}
	}
	var fields struct {
		DType       *string  `json:"dtype"`
		Shape       []uint64 `json:"shape"`
		DataOffsets []uint64 `json:"data_offsets"`
	}
	if err := decoder.Decode(&fields); err != nil {
		return fail("dtype, shape and data_offsets", err.Error())
	}
	if fields.DType == nil || fields.Shape == nil || len(fields.DataOffsets) != 2 {
		return fail("dtype, shape and two data_offsets", fmt.Sprintf("dtype %v, shape %v, data_offsets %v",
			textOr(fields.DType, "missing"), fields.Shape, fields.DataOffsets))
	}
	dtype := DType(*fields.DType)
	elementBits, known := bitsOf[dtype]
	if !known {
		return fail("a dtype of "+knownDTypes(), fmt.Sprintf("%q", *fields.DType))
	}
	begin, end := fields.DataOffsets[0], fields.DataOffsets[1]
	if begin > end || end > uint64(dataSize) {
		return fail(fmt.Sprintf("data_offsets within the %d bytes of data", dataSize), fmt.Sprintf("[%d, %d]", begin, end))
	}
	shape := make([]int, len(fields.Shape))
	total := elementBits
	overflow := false
	for i, n := range fields.Shape {
		high, low := bits.Mul64(total, n)
		overflow = overflow || high != 0 || n > math.MaxInt
		total, shape[i] = low, int(n)
	}
	if overflow || total%8 != 0 || total/8 != end-begin {
		need := fmt.Sprint(total / 8)
		if overflow {
			need = "more than 2^61"
		}
		return fail(fmt.Sprintf("%s bytes for %s %v", need, dtype, fields.Shape), fmt.Sprintf("%d bytes at [%d, %d]", end-begin, begin, end))
	}
	return entry{name: name, dtype: dtype, shape: shape, begin: int64(begin), end: int64(end)}, nil
}

// checkCover sorts the entries by offset and demands that they cover the data without gaps or overlaps.
func checkCover(file string, entries []entry, dataSize int64) error {
	sort.SliceStable(entries, func(i, j int) bool {
		a, b := &entries[i], &entries[j]
		return a.begin < b.begin || a.begin == b.begin && a.end < b.end
	})
	at, previous := int64(0), "the start of the data"
	for i := range entries {
		e := &entries[i]
		if e.begin != at {
			what := "a gap"
			if e.begin < at {
				what = "an overlap"
			}
			return &TensorError{File: file, Tensor: e.name, Expected: fmt.Sprintf("data from offset %d, where %s ends", at, previous),
				Found: fmt.Sprintf("%s: it begins at %d", what, e.begin)}
		}
		at, previous = e.end, e.name
	}
	if at != dataSize {
		return &TensorError{File: file, Expected: fmt.Sprintf("%d bytes of data, as the header describes", at), Found: fmt.Sprintf("%d", dataSize)}
	}
	return nil
}

func textOr(s *string, fallback string) string {
	if s == nil {
		return fallback
	}
	return *s
}
