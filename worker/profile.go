package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/moepool/moepool/internal/bytesize"
	"github.com/moepool/moepool/internal/wholefile"
	"github.com/moepool/moepool/residency"
)

// ProfileName is the file beside a worker's arenas that says which expert parts were needed most, so that the next start can bring these in
// first:
//
//	{"moepool_profile":1,"model":"<digest>","parts":1,"hottest":[[layer,part,heat],…]}
//
// Heat is the share of the layer's requests that needed the part, above 0 up to 1; the hottest come first.
const ProfileName = "hottest.json"

const (
	profileVersion = 1
	// maxProfileBytes is the most of a profile that is read: more than a million parts.
	maxProfileBytes = 64 << 20
)

// profile is the file's content.
type profile struct {
	Version int         `json:"moepool_profile"`
	Model   string      `json:"model"`
	Parts   int         `json:"parts"` // that an expert is packed in
	Hottest []heatEntry `json:"hottest"`
}

// heatEntry is a Heat as [layer, part, heat].
type heatEntry residency.Heat

// MarshalJSON implements json.Marshaler.
func (h heatEntry) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "[%d,%d,%.6g]", h.Layer, h.ID, h.Heat), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *heatEntry) UnmarshalJSON(text []byte) error {
	var numbers []json.Number
	if err := json.Unmarshal(text, &numbers); err != nil {
		return err
	}
	if len(numbers) != 3 {
		return fmt.Errorf("an entry has %d numbers, not layer, part and heat", len(numbers))
	}
	layer, layerErr := strconv.ParseInt(numbers[0].String(), 10, 32)
	id, idErr := strconv.ParseUint(numbers[1].String(), 10, 32)
	heat, heatErr := numbers[2].Float64()
	*h = heatEntry{Part: residency.Part{Layer: int(layer), ID: uint32(id)}, Heat: heat}
	return errors.Join(layerErr, idErr, heatErr)
}

// check says what is wrong with an entry of a model with so many layers, and expert parts in each.
func (h *heatEntry) check(layers, layerParts int) error {
	switch {
	case h.Layer < 0 || h.Layer >= layers:
		return fmt.Errorf("layer %d: valid are 0 to %d", h.Layer, layers-1)
	case int64(h.ID) >= int64(layerParts):
		return fmt.Errorf("expert part %d: valid are 0 to %d", h.ID, layerParts-1)
	case !(h.Heat > 0 && h.Heat <= 1):
		return fmt.Errorf("heat %g: valid is above 0 up to 1", h.Heat)
	}
	return nil
}

// errNoProfile says that there is no profile yet.
var errNoProfile = errors.New("no profile of earlier runs")

// readProfile reads the profile of a model from an arena folder; layerParts are the expert parts of each of its layers.
func readProfile(dir, digest string, parts, layers, layerParts int) ([]residency.Heat, error) {
	path := filepath.Join(dir, ProfileName)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoProfile
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxProfileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxProfileBytes {
		return nil, fmt.Errorf("%s has more than %s", path, bytesize.Text(maxProfileBytes))
	}
	p := &profile{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	switch {
	case p.Version != profileVersion:
		return nil, fmt.Errorf("%s has version %d, known is %d", path, p.Version, profileVersion)
	case p.Model != digest:
		return nil, fmt.Errorf("%s is of another model: %.16s, this one is %.16s", path, p.Model, digest)
	case p.Parts != parts:
		return nil, fmt.Errorf("%s is of experts in %d parts, here they have %d", path, p.Parts, parts)
	case len(p.Hottest) > layers*layerParts:
		return nil, fmt.Errorf("%s names %d expert parts, the model has %d", path, len(p.Hottest), layers*layerParts)
	}
	heats := make([]residency.Heat, len(p.Hottest))
	for i, h := range p.Hottest {
		if err := h.check(layers, layerParts); err != nil {
			return nil, fmt.Errorf("%s, entry %d: %w", path, i, err)
		}
		heats[i] = residency.Heat(h)
	}
	return heats, nil
}

// writeProfile replaces the profile in an arena folder.
func writeProfile(dir, digest string, parts int, hottest []residency.Heat) error {
	p := &profile{Version: profileVersion, Model: digest, Parts: parts, Hottest: make([]heatEntry, len(hottest))}
	for i, h := range hottest {
		p.Hottest[i] = heatEntry(h)
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if len(text) > maxProfileBytes {
		return fmt.Errorf("a profile of %d expert parts would have more than %s", len(hottest), bytesize.Text(maxProfileBytes))
	}
	return wholefile.Write(filepath.Join(dir, ProfileName), append(text, '\n'))
}
