package chart

import (
	"errors"
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// lossAxis is the horizontal axis.
type lossAxis struct {
	logarithmic   bool
	lowest        float64 // where losses that are not above 0 stand on a logarithmic axis
	zero          bool    // there are such
	first, last   float64 // the ends
	smallestShown float64
}

// lossAxis measures the axis that the chart's points need.
func (c *Chart) lossAxis() (lossAxis, error) {
	least, most, positive, zero, points := math.Inf(1), math.Inf(-1), math.Inf(1), false, 0
	for _, s := range c.Series {
		for _, p := range s.Points {
			if !finite(p) {
				continue
			}
			points++
			least, most = min(least, p.Loss), max(most, p.Loss)
			if p.Loss > 0 {
				positive = min(positive, p.Loss)
			} else {
				zero = true
			}
		}
	}
	if points == 0 {
		return lossAxis{}, errors.New("there is no point to draw")
	}
	if !c.Logarithmic || math.IsInf(positive, 1) {
		pad := max((most-least)*0.06, math.Abs(most)*0.01, 1e-9)
		return lossAxis{first: least - pad, last: most + pad}, nil
	}
	a := lossAxis{logarithmic: true, zero: zero, smallestShown: positive}
	a.lowest = positive / 3
	a.first, a.last = a.lowest/1.4, most*2
	return a, nil
}

// place is where a loss stands on the axis.
func (a *lossAxis) place(loss float64) float64 {
	if a.logarithmic {
		return max(loss, a.lowest)
	}
	return loss
}

// set gives the axis its ends, its scale and its ticks.
func (a *lossAxis) set(axis *plot.Axis) {
	axis.Min, axis.Max = a.first, a.last
	if !a.logarithmic {
		return
	}
	axis.Scale = plot.LogScale{}
	axis.Tick.Marker = plot.TickerFunc(func(float64, float64) []plot.Tick {
		var ticks []plot.Tick
		if a.zero {
			ticks = append(ticks, plot.Tick{Value: a.lowest, Label: "0"})
		}
		decades := math.Log10(a.last / a.smallestShown)
		for power := int(math.Floor(math.Log10(a.smallestShown))); power <= int(math.Ceil(math.Log10(a.last))); power++ {
			for _, digit := range []float64{1, 2, 5} {
				value := digit * math.Pow10(power)
				if value < a.smallestShown*0.7 || value > a.last {
					continue
				}
				tick := plot.Tick{Value: value}
				if digit == 1 || decades < 3 {
					tick.Label = strconv.FormatFloat(value, 'g', 3, 64)
				}
				ticks = append(ticks, tick)
			}
		}
		return ticks
	})
}
