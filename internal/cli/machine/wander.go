package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/host"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/oscillator"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// wanderReport is the object that "cprof doctor --wander --json" prints. Scripts read it, so fields
// may only be added.
type wanderReport struct {
	Span_s      float64       `json:"span_s"`
	Window_s    float64       `json:"window_s"`
	Clocks      []wanderClock `json:"clocks"`
	LeftOut     []string      `json:"left_out,omitempty"`
	Verdict     host.Verdict  `json:"verdict"`
	Justified   bool          `json:"justified"` // an independent clock justifies the advice
	Advice_ppm  float64       `json:"advice_ppm"`
	Explanation string        `json:"explanation"`
}

type wanderClock struct {
	Name        string  `json:"name"`
	Kind        string  `json:"kind"`
	Why         string  `json:"why"`
	Refuted_ppm float64 `json:"refuted_ppm"` // counter and clock together wander by more than this
	Unseen_ppm  float64 `json:"unseen_ppm"`  // a smaller wander may have gone unnoticed, roughly
	Bracket_ns  float64 `json:"bracket_ns"`
	Looks       int     `json:"looks"`
	Error       string  `json:"error,omitempty"`
}

const (
	wanderWindow = 10 * time.Second
	wanderEvery  = 100 * time.Millisecond
)

// doctorWander compares this machine's counter with its other clocks. It prints the wander that
// this comparison justifies.
func doctorWander(ctx context.Context, seconds float64, asJSON bool, stdout,
	stderr io.Writer) error {
	span := time.Duration(seconds * 1e9)
	if span < 2*wanderWindow || span > 24*time.Hour {
		return command.Usagef("--seconds %g: want %g, two windows of ±%v, to a day",
			seconds, (2 * wanderWindow).Seconds(), wanderWindow)
	}
	report := host.Examine(host.SystemOptions())
	if report.Quantum == nil || report.Frequency == nil || len(report.Facts.Cores.Allowed) == 0 {
		return fmt.Errorf("this machine's counter could not be measured: see \"cprof doctor\"")
	}
	clocks, left := oscillator.Clocks()
	line := command.NewProgress(stderr)
	options := oscillator.Options{
		Open: asm.EdgeOpen, Close: asm.EdgeClose, Quantum: report.Quantum.Step_cycles,
		Hz: (report.Frequency.Lo_millihz/2 + report.Frequency.Hi_millihz/2) / 1000,
		Wait: func(d time.Duration) {
			select {
			case <-time.After(d):
			case <-ctx.Done():
			}
		},
		Window: wanderWindow, Span: span, Every: wanderEvery,
	}
	var results []oscillator.Result
	var err error
	// Take all readings on one core, so that only that core's counter is compared.
	pinned := host.OnCore(report.Facts.Cores.Allowed[0], func() {
		results, err = oscillator.Measure(ctx, options, clocks, func(done, of int) {
			line.Show("comparing the counter with %d other clocks: %.0f of %.0f s",
				len(clocks), float64(done)/float64(of)*seconds, seconds)
		})
	})
	line.Done()
	for _, c := range clocks {
		if c.Close != nil {
			c.Close()
		}
	}
	if pinned != nil {
		return pinned
	}
	if err != nil {
		return err
	}
	w := newWanderReport(results, left, seconds)
	if asJSON {
		err = json.NewEncoder(stdout).Encode(w)
	} else {
		err = w.print(stdout)
	}
	if err == nil && w.Verdict == host.Unknown {
		err = fmt.Errorf("how this counter wanders could not be found out: %w", command.ErrPartial)
	}
	return err
}

func newWanderReport(results []oscillator.Result, left []string, seconds float64) wanderReport {
	w := wanderReport{Span_s: seconds, Window_s: wanderWindow.Seconds(), LeftOut: left}
	for _, r := range results {
		c := wanderClock{
			Name: r.Clock.Name, Kind: r.Clock.Kind.String(), Why: r.Clock.Why, Looks: r.Looks,
			Refuted_ppm: r.Refuted.PPM(), Unseen_ppm: r.Unseen.PPM(), Bracket_ns: r.Bracket_ns,
		}
		if r.Err != nil {
			c.Error = r.Err.Error()
		}
		w.Clocks = append(w.Clocks, c)
	}
	advice, justified := oscillator.Advice(results)
	w.Justified, w.Advice_ppm = justified, advice.PPM()
	usual := tscratio.DefaultAssumptions().Wander
	switch {
	case !justified:
		w.Verdict = host.Unknown
		w.Explanation = fmt.Sprintf("No clock here has an oscillator of its own, so this machine "+
			"cannot see its own wander, however long it looks. "+
			"Relate it with another machine for an hour (cprof relate … --seconds 3600 -o FILE): "+
			"\"cprof relation show FILE\" says which wander the data refute. "+
			"Assume at least four times that; most crystals stay below %v at an even temperature.",
			usual)
	case advice <= usual:
		w.Verdict = host.Fit
		w.Explanation = fmt.Sprintf("The independent clocks refute less than a quarter of %v: it "+
			"may be assumed of a pair of machines like this one, at temperatures like now. "+
			"The usual %v leaves more room.", advice, usual)
	default:
		w.Verdict = host.Warning
		w.Explanation = fmt.Sprintf("Counter and clock move against each other by more than the "+
			"usual %v leaves room for: assume %v of pairs with this machine. "+
			"Machines that have just started settle within the hour.", usual, advice)
	}
	return w
}

func (w wanderReport) print(out io.Writer) error {
	fmt.Fprintf(out, "How steadily this machine's counter runs, compared with its other clocks, "+
		"over %g s in windows of ±%g s:\n\n", w.Span_s, w.Window_s)
	for _, c := range w.Clocks {
		fmt.Fprintf(out, "%-20s %s: %s\n", c.Name, c.Kind, c.Why)
		switch {
		case c.Error != "":
			fmt.Fprintf(out, "%-20s not measured: %s\n", "", c.Error)
		case c.Kind == oscillator.Same.String() && c.Refuted_ppm == 0:
			fmt.Fprintf(out, "%-20s it refutes no wander, as expected: the readings are sound "+
				"(± %.0f ns), but show nothing of the oscillator\n", "", c.Bracket_ns/2)
		case c.Kind == oscillator.Same.String():
			fmt.Fprintf(out, "%-20s it refutes wanders below %.3g ppm, which a clock that is "+
				"made from the counter cannot: look for \"tsc\" in the kernel log\n", "",
				c.Refuted_ppm)
		default:
			fmt.Fprintf(out, "%-20s it refutes wanders below %.3g ppm; one below about %.2g ppm "+
				"could have gone unseen (readings are ± %.0f ns)\n", "",
				c.Refuted_ppm, c.Unseen_ppm, c.Bracket_ns/2)
		}
	}
	for _, l := range w.LeftOut {
		fmt.Fprintf(out, "left out: %s\n", l)
	}
	_, err := fmt.Fprintf(out, "\nverdict: %s\nadvice: --wander %gppm. %s\n",
		w.Verdict, w.Advice_ppm, w.Explanation)
	return err
}
