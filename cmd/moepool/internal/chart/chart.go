// Package chart draws speed against loss of quality, with the Pareto fronts, as SVG or PNG. It must not know what was measured, or how.
package chart

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Point is one measurement.
type Point struct {
	Speed, Loss float64
	Label       string
	Front       bool // on the Pareto front of its series
}

// Series are points that are compared with each other: one colour, one front.
type Series struct {
	Name   string
	Points []Point
}

// Chart is a picture: losses to the right, speeds upwards, so that the front is the upper left edge.
type Chart struct {
	Title, Speed, Loss string // what the axes show
	Series             []Series
	// Logarithmic shows losses on a logarithmic axis; those that are not above 0 stand at its left end, whose tick is "0".
	Logarithmic bool
}

// Formats are what Write can write.
var Formats = []string{"svg", "png"}

// The picture's size and the resolution of a PNG.
const (
	width, height = 9 * vg.Inch, 6 * vg.Inch
	margin        = 0.1 * vg.Inch
	dotsPerInch   = 144
)

// Write draws the chart. Points that are not finite are left out; a chart without any point is an error.
func (c *Chart) Write(w io.Writer, format string) error {
	var canvas vg.CanvasWriterTo
	switch format {
	case "svg":
		canvas = vgsvg.New(width, height)
	case "png":
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dotsPerInch))}
	default:
		return fmt.Errorf("a picture as %q: valid are %v", format, Formats)
	}
	p, err := c.plot()
	if err != nil {
		return err
	}
	p.Draw(draw.Crop(draw.NewCanvas(canvas, width, height), margin, -margin, margin, -margin))
	_, err = canvas.WriteTo(w)
	return err
}

// colours are Okabe and Ito's, which people who see colours differently can tell apart; more series begin anew.
var colours = []color.Color{
	color.RGBA{R: 0, G: 114, B: 178, A: 255}, color.RGBA{R: 213, G: 94, B: 0, A: 255}, color.RGBA{R: 0, G: 158, B: 115, A: 255},
	color.RGBA{R: 204, G: 121, B: 167, A: 255}, color.RGBA{R: 230, G: 159, B: 0, A: 255}, color.RGBA{R: 86, G: 180, B: 233, A: 255},
}

var face = font.Font{Typeface: "Liberation", Variant: "Sans"}

func (c *Chart) plot() (*plot.Plot, error) {
	x, err := c.lossAxis()
	if err != nil {
		return nil, err
	}
	p := plot.New()
	for _, f := range []*font.Font{
		&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font,
	} {
		f.Typeface, f.Variant = face.Typeface, face.Variant
	}
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.Loss, c.Speed
	p.Title.Padding, p.X.Padding, p.Y.Padding = vg.Points(8), vg.Points(4), vg.Points(4)
	p.BackgroundColor = color.White
	x.set(&p.X)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{Y: 230}, color.Gray{Y: 230}
	p.Add(grid)
	names := &labels{}
	top := 0.0
	for i, s := range c.Series {
		colour := colours[i%len(colours)]
		var all, front plotter.XYs
		for _, point := range s.Points {
			if !finite(point) {
				continue
			}
			top = max(top, point.Speed)
			at := plotter.XY{X: x.place(point.Loss), Y: point.Speed}
			all = append(all, at)
			names.add(at, point.Label, colour)
			if point.Front {
				front = append(front, at)
			}
		}
		if err := drawSeries(p, s.Name, all, front, colour); err != nil {
			return nil, err
		}
	}
	p.Add(names)
	p.Y.Min, p.Y.Max = 0, top*1.08
	p.Legend.TextStyle.Font.Size = vg.Points(10)
	p.Legend.YOffs = vg.Points(6)
	return p, nil
}

// drawSeries adds points, their front as steps (the best speed at a loss that is not larger), and a line of the legend.
func drawSeries(p *plot.Plot, name string, all, front plotter.XYs, colour color.Color) error {
	if len(all) == 0 {
		return nil
	}
	points, err := plotter.NewScatter(all)
	if err != nil {
		return err
	}
	points.GlyphStyle = draw.GlyphStyle{Color: colour, Radius: vg.Points(3.5), Shape: draw.CircleGlyph{}}
	p.Add(points)
	if name != "" {
		p.Legend.Add(name, points)
	}
	if len(front) == 0 {
		return nil
	}
	slices.SortFunc(front, func(a, b plotter.XY) int { return compare(a, b) })
	line, err := plotter.NewLine(front)
	if err != nil {
		return err
	}
	line.StepStyle = plotter.PostStep
	line.LineStyle = draw.LineStyle{Color: colour, Width: vg.Points(1.2), Dashes: []vg.Length{vg.Points(5), vg.Points(3)}}
	p.Add(line)
	return nil
}

func compare(a, b plotter.XY) int {
	switch {
	case a.X < b.X || a.X == b.X && a.Y < b.Y:
		return -1
	case a == b:
		return 0
	}
	return 1
}

func finite(p Point) bool {
	return !math.IsNaN(p.Speed) && !math.IsInf(p.Speed, 0) && !math.IsNaN(p.Loss) && !math.IsInf(p.Loss, 0)
}
