package plot

import "math"

// A Figure is one image of panels, one below the other.
type Figure struct {
	Title    string
	Subtitle string
	Panels   []Panel
	Notes    []string // printed below the panels, one on each line
}

// A Panel is a pair of axes with series, drawn in the order of Series. To align the panels of a
// figure, give them the same X.From and X.To.
type Panel struct {
	Title  string
	X, Y   Axis
	Series []Series
}

// An Axis describes the values of a panel. Without From and To the axis spans the data.
type Axis struct {
	Label string
	Unit  string // "" if the values are numbers without a unit
	Log   bool   // logarithmic, with ticks at powers of ten
	Zero  bool   // the axis begins at zero, or contains it
	Whole bool   // values are counts: ticks are at whole numbers only

	// If From < To, the axis reaches from From to To, and values beyond are not drawn.
	From, To float64
}

// A Kind says how a series is drawn.
type Kind uint8

const (
	Line   Kind = iota + 1 // Y over X, joined by lines
	Band                   // from Lo to Hi over X
	Points                 // Y over X, a marker for each value
	Rule                   // a vertical line through the panel at each X
)

// A Series is one set of data in a panel. The slices that its kind uses should have the same
// length. If one is longer, its surplus values are not drawn.
type Series struct {
	Name   string // name in the legend; "" for none
	Kind   Kind
	X      []float64
	Y      []float64
	Lo, Hi []float64
	Color  Color
}

// A Color is an index in the palette. Zero selects the next color that the panel does not use.
type Color uint8

const (
	Blue Color = iota + 1
	Orange
	Green
	Purple
	Sky
	Red
	Grey
)

const colors = int(Grey)

// length returns the number of values that can be drawn.
func (s Series) length() int {
	switch s.Kind {
	case Line, Points:
		return min(len(s.X), len(s.Y))
	case Band:
		return min(len(s.X), len(s.Lo), len(s.Hi))
	case Rule:
		return len(s.X)
	}
	return 0
}

// colored returns the panel's series, with a color for each.
func (p Panel) colored() []Series {
	used := make([]bool, colors+1)
	for _, s := range p.Series {
		used[min(int(s.Color), colors)] = true
	}
	next := 1
	series := make([]Series, len(p.Series))
	for i, s := range p.Series {
		if s.Color == 0 || int(s.Color) > colors {
			for next < colors && used[next] {
				next++
			}
			s.Color = Color(next)
			used[next] = true
		}
		series[i] = s
	}
	return series
}

// axes returns the panel's scales. If there is nothing to draw, ok is false.
func (p Panel) axes(xTicks, yTicks int) (x, y scale, ok bool) {
	var xs, ys span
	for _, s := range p.Series {
		for i := range s.length() {
			if !p.X.takes(s.X[i]) {
				continue
			}
			xs.add(s.X[i])
			switch s.Kind {
			case Line, Points:
				ys.addIf(p.Y, s.Y[i])
			case Band:
				ys.addIf(p.Y, s.Lo[i])
				ys.addIf(p.Y, s.Hi[i])
			}
		}
	}
	if !xs.any && p.X.fixed() {
		xs.add(p.X.From)
	}
	if !xs.any || !ys.any && !p.Y.fixed() {
		return scale{}, scale{}, false
	}
	if !ys.any {
		ys.add(p.Y.From)
	}
	return newScale(p.X, xs, xTicks, false), newScale(p.Y, ys, yTicks, true), true
}

// takes reports whether the axis can show a value.
func (a Axis) takes(v float64) bool {
	if !(math.Abs(v) <= largestValue) || a.Log && v < smallestDifference {
		return false
	}
	return !a.fixed() || a.From <= v && v <= a.To
}

// A value above largestValue is a gap, and a difference below smallestDifference is not shown. So
// all arithmetic on values stays finite.
const largestValue, smallestDifference = 1e30, 1e-30

// fixed reports whether From and To are valid and so determine the axis.
func (a Axis) fixed() bool {
	return math.Abs(a.From) <= largestValue && math.Abs(a.To) <= largestValue &&
		a.To-a.From >= smallestDifference &&
		!(a.Log && a.From < smallestDifference)
}

// A span is the smallest interval that contains the added values.
type span struct {
	lo, hi float64
	any    bool
}

func (s *span) add(v float64) {
	if !s.any {
		*s = span{v, v, true}
		return
	}
	s.lo, s.hi = min(s.lo, v), max(s.hi, v)
}

func (s *span) addIf(a Axis, v float64) {
	if a.takes(v) {
		s.add(v)
	}
}
