package chart

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// labels are the points' names, each where it hides as little of other names and points as possible.
type labels struct {
	at      []plotter.XY
	names   []string
	colours []color.Color
}

func (l *labels) add(at plotter.XY, name string, colour color.Color) {
	l.at, l.names, l.colours = append(l.at, at), append(l.names, name), append(l.colours, colour)
}

// labelPlaces are where a name can stand: the side of it that is next to its point, and by how many points it is moved.
var labelPlaces = []struct {
	x, y   float64 // of the name's box: 0 is its left or lower edge, -1 its right or upper one
	dx, dy vg.Length
}{
	{0, 0, 4, 4}, {0, -1, 4, -4}, {-1, 0, -4, 4}, {-1, -1, -4, -4},
	{0, -0.5, 6, 0}, {-1, -0.5, -6, 0}, {-0.5, 0, 0, 6}, {-0.5, -1, 0, -6},
	{0, 0, 8, 16}, {0, -1, 8, -16}, {-1, 0, -8, 16}, {-1, -1, -8, -16},
}

// Plot implements plot.Plotter.
func (l *labels) Plot(c draw.Canvas, p *plot.Plot) {
	transformX, transformY := p.Transforms(&c)
	var taken []vg.Rectangle
	for _, at := range l.at {
		x, y := transformX(at.X), transformY(at.Y)
		taken = append(taken, vg.Rectangle{Min: vg.Point{X: x - 4, Y: y - 4}, Max: vg.Point{X: x + 4, Y: y + 4}})
	}
	for i, name := range l.names {
		if name == "" {
			continue
		}
		style := text.Style{Color: l.colours[i], Font: face, Handler: plot.DefaultTextHandler}
		style.Font.Size = vg.Points(8)
		w, h := style.Width(name), style.Height(name)
		x, y := transformX(l.at[i].X), transformY(l.at[i].Y)
		var best vg.Rectangle
		least := vg.Length(-1)
		for _, place := range labelPlaces {
			corner := vg.Point{X: x + vg.Length(place.x)*w + place.dx, Y: y + vg.Length(place.y)*h + place.dy}
			box := vg.Rectangle{Min: corner, Max: vg.Point{X: corner.X + w, Y: corner.Y + h}}
			hidden := outside(box, c.Rectangle)
			for n, other := range taken {
				if n != i {
					hidden += overlap(box, other)
				}
			}
			if least < 0 || hidden < least {
				best, least = box, hidden
			}
		}
		taken = append(taken, best)
		c.FillText(style, best.Min, name)
	}
}

// overlap is the area that two boxes share.
func overlap(a, b vg.Rectangle) vg.Length {
	return max(0, min(a.Max.X, b.Max.X)-max(a.Min.X, b.Min.X)) * max(0, min(a.Max.Y, b.Max.Y)-max(a.Min.Y, b.Min.Y))
}

// outside is the area of a box beyond another one.
func outside(box, of vg.Rectangle) vg.Length {
	size := box.Size()
	return size.X*size.Y - overlap(box, of)
}
