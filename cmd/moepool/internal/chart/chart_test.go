package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/color"
	"image/png"
	"io"
	"math"
	"strings"
	"testing"
)

func example() *Chart {
	return &Chart{
		Title: "quality", Speed: "tokens/s", Loss: "mean KL divergence", Logarithmic: true,
		Series: []Series{
			{Name: "1 GiB", Points: []Point{{10, 0, "off", true}, {14, 0.002, "mass=0.1", true}, {13, 0.3, "count=4 & <worse>", false}, {15, 1.5, "count=2", true}}},
			{Name: "2 GiB", Points: []Point{{20, 0, "off", true}, {math.NaN(), 1, "lost", false}}},
		},
	}
}

// texts gives all text of an XML document, and fails if it isn't one.
func texts(t *testing.T, document []byte) (all []string) {
	t.Helper()
	decoder := xml.NewDecoder(bytes.NewReader(document))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if data, ok := token.(xml.CharData); ok {
			all = append(all, strings.TrimSpace(string(data)))
		}
	}
}

// An SVG is XML and names what is shown.
func TestSVG(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := example().Write(&out, "svg"); err != nil {
		t.Fatal(err)
	}
	all := "|" + strings.Join(texts(t, out.Bytes()), "|") + "|"
	for _, want := range []string{"quality", "tokens/s", "mean KL divergence", "off", "mass=0.1", "count=4 & <worse>", "1 GiB", "2 GiB", "0", "0.01"} {
		if !strings.Contains(all, "|"+want+"|") {
			t.Errorf("the picture has no %q: %s", want, all)
		}
	}
	if strings.Contains(all, "lost") {
		t.Error("a point that is not finite is shown")
	}
}

// A PNG decodes and has points of both series.
func TestPNG(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := example().Write(&out, "png"); err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(&out)
	if err != nil {
		t.Fatal(err)
	}
	size := picture.Bounds().Size()
	if want := int(width.Dots(dotsPerInch)); size.X != want {
		t.Errorf("%d pixels wide, want %d", size.X, want)
	}
	seen := map[color.Color]int{}
	for y := range size.Y {
		for x := range size.X {
			seen[color.RGBAModel.Convert(picture.At(x, y))]++
		}
	}
	for i, c := range colours[:2] {
		if seen[c] < 20 {
			t.Errorf("%d pixels have the colour of series %d", seen[c], i)
		}
	}
}

// A linear axis, one point only, all losses 0; and what can't be drawn.
func TestCharts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]*Chart{
		"one point": {Series: []Series{{Points: []Point{{1, 5, "a", true}}}}},
		"zeros":     {Logarithmic: true, Series: []Series{{Points: []Point{{1, 0, "a", true}, {2, 0, "b", true}}}}},
		"standing":  {Logarithmic: true, Series: []Series{{Points: []Point{{0, 0.1, "a", true}}}}},
	} {
		if err := c.Write(io.Discard, "svg"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (&Chart{}).Write(io.Discard, "svg"); err == nil {
		t.Error("a chart without points is drawn")
	}
	if err := example().Write(io.Discard, "gif"); err == nil || !strings.Contains(err.Error(), "svg") {
		t.Errorf("a GIF: %v", err)
	}
}
