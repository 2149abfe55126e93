package generator

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// Answer describes in a sentence or two what a search found.
func (r SearchResult) Answer() string {
	var text strings.Builder
	switch r.LimitedBy {
	case ByNothing:
		fmt.Fprintf(&text, "no rate was sustained, not even %.4g tuples a second: %s",
			r.Failed, reasons(r.Why))
		return text.String()
	case ByEngine:
		fmt.Fprintf(&text, "sustained: %.0f tuples a second; the engine is the limit: at %.0f %s",
			r.Sustained, r.Failed, reasons(r.Why))
	case ByGenerator:
		fmt.Fprintf(&text, "sustained: at least %.0f tuples a second; the generator is the limit, "+
			"not the engine: its own ceiling is %.0f", r.Sustained, r.Ceiling)
	case ByHighest:
		fmt.Fprintf(&text,
			"sustained: at least %.0f tuples a second, the highest rate that was wanted",
			r.Sustained)
	default:
		return "the search was not finished"
	}
	if r.Confirmed < r.Wanted {
		fmt.Fprintf(&text, "\nconfirmed only %d of %d times", r.Confirmed, r.Wanted)
	} else {
		fmt.Fprintf(&text, "\nconfirmed %d of %d times", r.Confirmed, r.Wanted)
	}
	if r.Attempts > 1 {
		rates := "rates"
		if r.Attempts == 2 {
			rates = "rate"
		}
		fmt.Fprintf(&text, ", after %d higher %s that could not be confirmed", r.Attempts-1, rates)
	}
	if r.SureShare > 0 {
		fmt.Fprintf(&text, "\nwith 95 %% confidence, at least %.0f in 100 such trials succeed",
			math.Floor(r.SureShare*100))
	}
	if r.Arrivals == PoissonArrivals {
		fmt.Fprintf(&text, "\ntuples were due at random times (Poisson)")
	}
	if r.Stalls.Count > 0 {
		fmt.Fprintf(&text, "\n%s", r.Stalls)
	}
	return text.String()
}

// String describes the stalls in a sentence.
func (s Stalls) String() string {
	typical := s.Typical.Round(100 * time.Microsecond)
	switch {
	case s.Count == 0:
		return "no stalls"
	case s.Every > 0:
		every := s.Every.Round(10 * time.Millisecond)
		return fmt.Sprintf("the engine stalls for %s every %s", typical, every)
	default:
		return fmt.Sprintf("the engine stalled %d times, typically for %s, at irregular times",
			s.Count, typical)
	}
}

var reasonTexts = map[Reason]string{
	BacklogGrows:   "the backlog grows",
	LatencyGrows:   "the latency grows",
	TuplesLost:     "tuples are lost",
	TuplesDoubled:  "tuples come out twice",
	LatencyTooHigh: "the latency is above the limit",
	Generator:      "the generator fell behind",
	NothingSeen:    "nothing comes out",
}

func reasons(list []Reason) string {
	var texts []string
	for _, r := range list {
		texts = append(texts, reasonTexts[r])
	}
	return strings.Join(texts, ", ")
}

// WriteText writes the answer, and below it a line for each trial, in the order of rates. The line
// contains the trial's latencies.
func (r SearchResult) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s\n", r.Answer())
	fmt.Fprintf(w, "the generator's own ceiling: %.0f tuples a second\n", r.Ceiling)
	for _, m := range r.Marks {
		fmt.Fprintf(w, "marked %s, %d times: %s\n", m.Mark, m.Count, m.Text)
	}
	fmt.Fprintln(w)
	fmt.Fprintf(w, "%12s %12s %12s %10s %10s %10s %9s  %s\n",
		"tuples/s", "sent/s", "out/s", "p50 µs", "p99 µs", "max µs", "phase", "verdict")
	for _, t := range r.ByRate() {
		verdict := "sustained"
		if !t.Sustained {
			verdict = reasons(t.Reasons)
		}
		if t.Cut {
			verdict += " (cut)"
		}
		for _, m := range t.Marks {
			if m.Mark == Late {
				verdict += ", sent late by this machine"
			}
		}
		us := func(d time.Duration) float64 { return float64(d) / 1e3 }
		fmt.Fprintf(w, "%12.0f %12.0f %12.0f %10.1f %10.1f %10.1f %9s  %s\n",
			t.Rate, t.Achieved, t.Delivered, us(t.P50), us(t.P99), us(t.Max), t.Phase, verdict)
	}
	_, err := fmt.Fprintln(w, "\nlatencies are from when a tuple was due until it came out, "+
		"of tuples due after the warm-up")
	return err
}

// ByRate returns the trials in the order of their rates.
func (r SearchResult) ByRate() []Trial {
	list := slices.Clone(r.Trials)
	slices.SortStableFunc(list, func(a, b Trial) int { return cmp.Compare(a.Rate, b.Rate) })
	return list
}
