package relations

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/plot"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

func newRelationPlot() *cobra.Command {
	var flags relationFlags
	var svg string
	cmd := &cobra.Command{
		Use:   "plot FILE",
		Short: "Draw a relation over time: bound, residuals, rate, stamps used",
		Long: `Draw a relation over time: its bound, what single packets proved relative to it, the
relative rate, and whose stamps were used. The drawing is text, or an image with --svg.

Each packet has a mark relative to the middle of the bound, its residual. A packet from the first
node proves that the truth is not below its mark. A packet from the second node proves that the
truth is not above its mark. The band shows the bound that follows from all packets and the assumed
wander. If the data refute every bound, the drawing shows the packets relative to a straight line,
and the contradictions.

Exit code 1: the data refute every bound. Exit code 3: the relation is suspect.`,
		Example: `  cprof relation plot a--b.rel
  cprof relation plot a--b.rel --svg a--b.svg --wander 0.1ppm`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pair, err := readPair(args[0], flags.with)
			if err != nil {
				return err
			}
			relation, why := flags.relate(pair)
			var refuted *tscratio.RefutedError
			if why != nil && !errors.As(why, &refuted) {
				return why
			}
			s := summarize(pair, relation, why)
			var figure plot.Figure
			if relation != nil {
				figure = s.figure()
			} else {
				figure = s.brokenFigure()
			}
			if svg == "" {
				err = figure.WriteText(cmd.OutOrStdout(), columnsOf(cmd.OutOrStdout()))
			} else {
				err = command.Draw(svg, figure.WriteSVG)
			}
			if err != nil {
				return err
			}
			return s.err()
		},
	}
	flags.add(cmd)
	flags.addInto(cmd)
	cmd.Flags().StringVar(&svg, "svg", "", "write an image to this `file` instead")
	return cmd
}

// columnsOf returns the width of a terminal. For files and pipes it returns 100, a width that
// people can read well.
func columnsOf(w io.Writer) int {
	if file, ok := command.FileOf(w); ok {
		if size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ); err == nil &&
			size.Col > 0 {
			return min(int(size.Col), 200)
		}
	}
	return 100
}

// curve is an interval (from lo to hi) that changes over time (x).
type curve struct{ x, lo, hi []float64 }

func (c *curve) add(x, lo, hi float64) {
	c.x, c.lo, c.hi = append(c.x, x), append(c.lo, lo), append(c.hi, hi)
}

const plotSamples = 1500

func (s *summary) figure() plot.Figure {
	r := s.relation
	knots := r.Knots()
	first, last := knots[0].Reading, knots[len(knots)-1].Reading
	at_s := func(y uint64) float64 { return float64(int64(y-first)) / float64(r.From.Nominal_hz) }

	var half, band curve
	for i := range uint64(plotSamples + 1) {
		y := first + uint64(float64(last-first)*float64(i)/plotSamples)
		at, err := r.Translate(min(y, last))
		if err != nil {
			half.add(at_s(y), math.NaN(), math.NaN())
			continue
		}
		h := toMicroseconds(r.Into, float64(at.Width())/2)
		half.add(at_s(y), h, h)
		band.add(at_s(y), -h, h)
	}
	time := plot.Axis{Label: "time", Unit: "s", From: min(0, at_s(first)), To: at_s(last)}
	panels := []plot.Panel{{
		Title: "Bound", X: time, Y: plot.Axis{Label: "half-width", Unit: "µs", Zero: true},
		Series: append([]plot.Series{{Name: "bound of " + r.From.Name + " in " + r.Into.Name,
			Kind: plot.Line, X: half.x, Y: half.lo, Color: plot.Blue}},
			s.contradictionRules(at_s)...),
	}}
	panels = append(panels, s.residuals(time, band, at_s), s.rates(time, knots, at_s))
	if stamps, ok := s.stampPanel(time, at_s); ok {
		panels = append(panels, stamps)
	}
	d := s.pair.Declared
	notes := []string{
		fmt.Sprintf("Assumed: the relative rate stays within %v of its mean in any ±%v, no epoch "+
			"is broken, cores agree within %d and %d cycles.",
			r.Wander, d.Window, s.pair.A.CoreSlack_cycles, s.pair.B.CoreSlack_cycles),
	}
	notes[0] += " The marks are readings as they were taken; the bound beyond them is quantum " +
		"and core slack of both nodes, and wander."
	for _, c := range s.contradictions() {
		notes = append(notes, "Contradiction: "+s.contradictionText(c))
	}
	return plot.Figure{
		Title: fmt.Sprintf("%s in cycles of %s: %s", r.From.Name, r.Into.Name, r.Verdict),
		Subtitle: fmt.Sprintf("bound ± %s (median), computed with a wander of %.3g ppm, %s; %d "+
			"trains, %d constraints",
			formatMicroseconds(quantile(s.halves_us, 0.5)), r.Wander.PPM(),
			describeRefuted(r.Least), s.trains, s.kept),
		Panels: panels, Notes: notes,
	}
}

// brokenFigure shows the constraints of a pair that has no relation. It draws them relative to the
// straight line from the first train to the last.
func (s *summary) brokenFigure() plot.Figure {
	a, b := s.pair.A, s.pair.B
	var trains []tscratio.Kept
	for k := range s.pair.Kept() {
		if len(k.Constraints) > 0 {
			trains = append(trains, k)
		}
	}
	first, last := trains[0], trains[len(trains)-1]
	beginB, beginA := first.B.Mid(), first.A.Mid()
	slope := float64(int64(last.A.Mid()-beginA)) / float64(int64(last.B.Mid()-beginB))
	if math.IsNaN(slope) || math.IsInf(slope, 0) {
		slope = float64(a.Nominal_hz) / float64(b.Nominal_hz)
	}
	at_s := func(y uint64) float64 { return float64(int64(y-beginB)) / float64(b.Nominal_hz) }
	lower := plot.Series{Name: "not below: packets of " + a.Name, Kind: plot.Points,
		Color: plot.Green}
	upper := plot.Series{Name: "not above: packets of " + b.Name, Kind: plot.Points,
		Color: plot.Orange}
	for _, k := range trains {
		for _, c := range k.Constraints {
			series := &lower
			if c.Kind == tscratio.Upper {
				series = &upper
			}
			off := float64(int64(c.A-beginA)) - slope*float64(int64(c.B-beginB))
			series.X, series.Y = append(series.X, at_s(c.B)),
				append(series.Y, toMicroseconds(a, off))
		}
	}
	panel := plot.Panel{
		Title: "Packets", X: plot.Axis{Label: "time", Unit: "s"},
		Y: plot.Axis{Label: "against a straight line from the first train to the last",
			Unit: "µs"},
		Series: []plot.Series{lower, upper},
	}
	rule := plot.Series{Name: "contradiction", Kind: plot.Rule, Color: plot.Red}
	var notes []string
	for _, c := range s.contradictions() {
		at := at_s(c.At.Mid())
		if c.From == a.Name {
			at = float64(int64(c.At.Mid()-beginA)) / float64(a.Nominal_hz)
		}
		rule.X = append(rule.X, at)
		notes = append(notes, "Contradiction: "+s.contradictionText(c))
	}
	if rule.X != nil {
		panel.Series = append(panel.Series, rule)
	}
	return plot.Figure{
		Title: fmt.Sprintf("%s in cycles of %s: no bound", b.Name, a.Name),
		Subtitle: fmt.Sprintf("the data need more than half of the largest wander for which "+
			"constraints were kept, %v; %d trains, %d constraints",
			s.pair.Declared.MaxWander, s.trains, s.kept),
		Panels: []plot.Panel{panel}, Notes: notes,
	}
}

func (s *summary) contradictionRules(at_s func(uint64) float64) []plot.Series {
	var x []float64
	for _, c := range s.contradictions() {
		if c.From == s.relation.From.Name {
			x = append(x, at_s(c.At.Mid()))
		}
	}
	if x == nil {
		return nil
	}
	return []plot.Series{{Name: "contradiction", Kind: plot.Rule, X: x, Color: plot.Red}}
}

// residuals draws what each packet proves about the two counters, as a distance from the middle of
// the interval that the relation gives at that time.
func (s *summary) residuals(time plot.Axis, band curve, at_s func(uint64) float64) plot.Panel {
	r := s.relation
	var lower, upper plot.Series
	lower = plot.Series{Name: "not below: packets of " + r.Into.Name, Kind: plot.Points,
		Color: plot.Green}
	upper = plot.Series{Name: "not above: packets of " + r.From.Name, Kind: plot.Points,
		Color: plot.Orange}
	for k := range s.pair.Kept() {
		for _, c := range k.Constraints {
			y, x, series := c.B, c.A, &lower
			if c.Kind == tscratio.Upper {
				series = &upper
			}
			if r.From.Name == s.pair.A.Name { // constraints map B to A: turn them round
				y, x = c.A, c.B
				if c.Kind == tscratio.Upper {
					series = &lower
				} else {
					series = &upper
				}
			}
			at, err := r.Translate(y)
			if err != nil {
				continue
			}
			series.X = append(series.X, at_s(y))
			series.Y = append(series.Y, toMicroseconds(r.Into, float64(int64(x-at.Mid()))))
		}
	}
	// A packet that arrives late proves little. If the axis showed all such packets, the others
	// would look like a flat line. So the axis shows most packets, but not all.
	spread := 4 * quantile(s.halves_us, 0.9)
	near := slices.Concat(lower.Y, upper.Y)
	for i := range near {
		near[i] = math.Abs(near[i])
	}
	slices.Sort(near)
	spread = max(spread, 1.1*quantile(near, 0.5), 0.01)
	outside := 0
	for _, v := range near {
		if v > spread {
			outside++
		}
	}
	title := "Residuals"
	if outside > 0 {
		title += " (" + strconv.Itoa(outside) + " of " + strconv.Itoa(len(near)) +
			" are outside of the picture)"
	}
	return plot.Panel{
		Title: title, X: time, Y: plot.Axis{Label: "against the middle of the bound", Unit: "µs",
			From: -spread, To: spread},
		Series: []plot.Series{
			{Name: "bound", Kind: plot.Band, X: band.x, Lo: band.lo, Hi: band.hi, Color: plot.Blue},
			lower, upper,
		},
	}
}

// rates draws the rates relative to their mean, so that a reader can see small changes of the
// rates.
func (s *summary) rates(time plot.Axis, knots []tscratio.Knot,
	at_s func(uint64) float64) plot.Panel {
	var rate curve
	lo, hi, ok := s.meanRate()
	mean := (lo + hi) / 2
	if !ok {
		mean = (knots[0].Rate.Lo.Float() + knots[0].Rate.Hi.Float()) / 2
	}
	var widths []float64
	for _, k := range knots {
		lo_ppb, hi_ppb := k.Rate.PPB(mean)
		rate.add(at_s(k.Reading), lo_ppb, hi_ppb)
		widths = append(widths, max(math.Abs(lo_ppb), math.Abs(hi_ppb)))
	}
	slices.Sort(widths)
	spread := max(2*quantile(widths, 0.8), 1)
	for i := range rate.lo { // near the ends the rate's interval is wide: cut it
		rate.lo[i], rate.hi[i] = max(rate.lo[i], -spread), min(rate.hi[i], spread)
	}
	return plot.Panel{
		Title: "Relative rate", X: time, Y: plot.Axis{Label: "against the mean of the whole",
			Unit: "ppb"},
		Series: []plot.Series{{Name: "mean rate in the window, proven", Kind: plot.Band, X: rate.x,
			Lo: rate.lo, Hi: rate.hi, Color: plot.Purple}},
	}
}

// stampPanel draws how many stamps of each train the kernel took, and how many the program took. If
// the file does not say that, stampPanel returns false.
func (s *summary) stampPanel(time plot.Axis, at_s func(uint64) float64) (plot.Panel, bool) {
	kernel := plot.Series{Name: "of the kernel", Kind: plot.Points, Color: plot.Green}
	user := plot.Series{Name: "around system calls", Kind: plot.Points, Color: plot.Orange}
	any := false
	for k := range s.pair.Kept() {
		y := k.B
		if s.relation.From.Name == s.pair.A.Name {
			y = k.A
		}
		kernel.X, kernel.Y = append(kernel.X, at_s(y.Mid())),
			append(kernel.Y, float64(k.Stamps.Kernel))
		user.X, user.Y = append(user.X, at_s(y.Mid())), append(user.Y, float64(k.Stamps.User))
		any = any || k.Stamps != tscratio.Stamps{}
	}
	return plot.Panel{
		Title: "Stamps used, by train",
		X:     time, Y: plot.Axis{Label: "stamps", Zero: true, Whole: true},
		Series: []plot.Series{kernel, user},
	}, any
}
