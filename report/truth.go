package report

import "github.com/cloudprofiler/cloudprofiler/analysis"

// showTruth shows how values compare with the truth.
func (f *from) showTruth() {
	switch {
	case f.a.Held == nil:
		f.absent(PartTruth, "only a run of virtual nodes knows the truth, such as that of cprof "+
			"demo: between real machines nobody does")
		return
	case f.a.Held.Count == 0:
		f.absent(PartTruth, "the run knows the truth, but has no duration to hold against it")
		return
	}
	f.Truth.Durations = held(f.a.Held)
	var remote analysis.Held
	for _, spans := range [][]analysis.Span{f.a.EndToEnd, f.a.Spans} {
		for i := range spans {
			l := &spans[i]
			if l.Remote != nil && l.Remote.Held != nil {
				remote.Merge(l.Remote.Held)
			}
			f.trueSpan(l, Local, l.Local)
			f.trueSpan(l, Remote, l.Remote)
		}
	}
	f.Truth.Remote = held(&remote)
	if n := len(f.Truth.Spans); n > maxSpans {
		f.Truth.Spans = f.Truth.Spans[:maxSpans]
		f.absent(PartTruth, "%d more spans are not shown", n-maxSpans)
	}
	if len(f.a.Comparisons) == 0 {
		return
	}
	for i, m := range f.a.Comparisons[0].Methods {
		shown := TrueMethod{Name: m.Name, What: heldOf[m.Name]}
		var all analysis.Held
		for _, c := range f.a.Comparisons {
			if h := c.Methods[i].Held; h != nil {
				all.Merge(h)
			}
			if about := c.Methods[i].About; about != "" {
				shown.About = about
			}
		}
		if shown.Held = held(&all); all.Count > 0 {
			f.Truth.Methods = append(f.Truth.Methods, shown)
		}
	}
}

// heldOf names, for each method, what was compared with the truth.
var heldOf = map[string]string{Ours: "moments", MinRTT: "moments", ReT: "tuples",
	NTP: "pairs of claims"}

func (f *from) trueSpan(l *analysis.Span, place Place, d *analysis.Durations) {
	if d == nil || d.Held == nil {
		return
	}
	s := f.spanOf(l)
	row := TrueSpan{Name: s.Name, Points: s.Points, Kind: s.Kind, Place: place, Held: held(d.Held)}
	median, _ := d.Percentiles.At(50)
	truth, _ := d.Held.True.At(50)
	row.Median, row.True = roundInterval(median), roundInterval(truth)
	f.Truth.Spans = append(f.Truth.Spans, row)
}

func held(h *analysis.Held) Held {
	out := Held{Held: count(h.Count), Outside: count(h.Outside), Used_50: h.UsedPercentile(50),
		Used_99: h.UsedPercentile(99), Largest: h.MostUsed}
	if inside := h.Count - h.Outside; inside > 0 {
		for _, n := range h.Used {
			out.Shares = append(out.Shares, float64(n)/float64(inside))
		}
	}
	return out
}
