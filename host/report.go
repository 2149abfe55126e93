package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
)

// Verdict says whether a node, judged by one of its properties, is fit for measuring. A larger
// number is more serious.
type Verdict int

const (
	Fit     Verdict = iota // it can be used without restriction
	Warning                // it can be used within limits, which Finding.Detail describes
	Unknown                // it could not be determined
	Unfit                  // bounds that depend on it would be false
)

var verdicts = [...]string{"fit", "warning", "unknown", "unfit"}

func (v Verdict) String() string {
	if v < 0 || int(v) >= len(verdicts) {
		return fmt.Sprintf("verdict(%d)", int(v))
	}
	return verdicts[v]
}

// MarshalText returns the verdict's word, and UnmarshalText reads it.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

func (v *Verdict) UnmarshalText(text []byte) error {
	for i, word := range verdicts {
		if word == string(text) {
			*v = Verdict(i)
			return nil
		}
	}
	return fmt.Errorf("parse verdict %q: want one of %s", text, strings.Join(verdicts[:], ", "))
}

// Finding is one result about a node. Remedy is "" if there is nothing to do.
type Finding struct {
	Name    string  `json:"name"`
	Verdict Verdict `json:"verdict"`
	Detail  string  `json:"detail"`
	Remedy  string  `json:"remedy,omitempty"`
}

// Report contains all results about a node.
type Report struct {
	Facts Facts  `json:"facts"`
	Epoch string `json:"epoch"`
	// Each of these is nil if it could not be measured. A finding then explains why.
	Quantum   *Quantum   `json:"quantum,omitempty"`
	Slack     *Slack     `json:"slack,omitempty"`
	Frequency *Frequency `json:"frequency,omitempty"`
	Findings  []Finding  `json:"findings"`
}

// Verdict returns the worst verdict of the findings.
func (r Report) Verdict() Verdict {
	worst := Fit
	for _, f := range r.Findings {
		worst = max(worst, f.Verdict)
	}
	return worst
}

// WriteTo writes the report for people to read.
func (r Report) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	name := r.Facts.Hostname
	if name == "" {
		name = "this node"
	}
	fmt.Fprintf(&b, "%s: %s\n\n", name, verdictSentence(r.Verdict()))
	for _, f := range r.Findings {
		writeWrapped(&b, fmt.Sprintf("  %-8s %-17s ", f.Verdict, f.Name), f.Detail)
		if f.Remedy != "" {
			writeWrapped(&b, strings.Repeat(" ", 29)+"-> ", f.Remedy)
		}
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}

func verdictSentence(v Verdict) string {
	switch v {
	case Fit:
		return "its counter can be used"
	case Warning:
		return "its counter can be used; read the warnings"
	case Unknown:
		return "not everything could be found out"
	}
	return "its counter cannot be trusted"
}

// writeWrapped writes a text after an indent, in lines of at most 100 columns. The lines after the
// first are indented as far as the first word.
func writeWrapped(b *strings.Builder, indent, text string) {
	const width = 100
	column := len(indent)
	b.WriteString(indent)
	for i, word := range strings.Fields(text) {
		if i > 0 {
			if column+1+len(word) > width {
				b.WriteString("\n" + strings.Repeat(" ", len(indent)))
				column = len(indent)
			} else {
				b.WriteByte(' ')
				column++
			}
		}
		b.WriteString(word)
		column += len(word)
	}
	b.WriteByte('\n')
}

func plural(n uint64, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// Options are the inputs and settings of Examine. SystemOptions returns the options for this
// machine.
type Options struct {
	Root     fs.FS
	Features asm.Features
	Clocks   Clocks
	Wait     func(time.Duration)
	OnCore   func(core int, f func()) error
	Listen   func() (*RestoreEvents, error) // nil: do not listen for restores
	Slack    SlackOptions

	QuantumReadings int           // 0 means 20,000
	FrequencySpan   time.Duration // 0 means 100 ms
}

// Examine measures everything about a node. On a machine with few cores this takes less than a
// second. Examine always returns a report: if it cannot measure something, a finding says so.
func Examine(o Options) Report {
	if o.QuantumReadings == 0 {
		o.QuantumReadings = 20_000
	}
	if o.FrequencySpan == 0 {
		o.FrequencySpan = 100 * time.Millisecond
	}
	r := Report{Facts: ReadFacts(o.Root, o.Features)}
	r.Findings = r.Facts.findings()
	if errors.Is(o.Features.Check(), asm.ErrUnfit) {
		return r // perhaps the counter cannot even be read
	}

	quantum, err := o.quantum(r.Facts)
	if err == nil {
		r.Quantum = &quantum
		r.Findings = append(r.Findings, quantum.finding())
	} else {
		verdict, remedy := Unknown, "run it again on a quiet machine"
		if errors.Is(err, ErrCounterStill) || errors.Is(err, ErrCounterBackwards) {
			verdict, remedy = Unfit, "use another machine"
		}
		r.Findings = append(r.Findings, Finding{"quantum", verdict, err.Error(), remedy})
		if verdict == Unfit {
			return r
		}
		quantum.Step_cycles = 1
	}

	// The watch begins before the slack is measured, because the watch needs time to find the
	// counter's rate.
	observer := Observer{Root: o.Root, Clocks: o.Clocks}
	if o.Listen != nil {
		if events, err := o.Listen(); err == nil {
			defer events.Close()
			observer.Restores = events
		}
	}
	watch, unwatched := NewWatch(WatchOptions{
		Observe: observer.Observe, Widen_cycles: quantum.Step_cycles,
		Virtual:   r.Facts.Hypervisor != "",
		Listening: observer.Restores != nil && r.Facts.HasVMGenID, Settle: o.FrequencySpan,
	})

	o.Slack.Quantum_cycles = quantum.Step_cycles
	if o.Slack.Cores == nil {
		o.Slack.Cores = o.usableCores(r.Facts.Cores)
	}
	slack, err := MeasureSlack(o.Slack)
	if err == nil {
		r.Slack = &slack
	}
	r.Findings = append(r.Findings, slack.finding(r.Facts, err), stampsFinding(o.Root, r.Slack))
	if unwatched != nil {
		r.Findings = append(r.Findings, Finding{"epoch", Unknown, unwatched.Error(),
			"show /proc to this process"})
		return r
	}
	if r.Slack != nil {
		watch.o.Widen_cycles += slack.Slack_cycles
	}
	begun_ns := watch.first.Bracket.Raw_ns
	if now_ns, err := o.Clocks.Raw_ns(); err == nil {
		o.Wait(max(0, o.FrequencySpan-time.Duration(now_ns-begun_ns)))
	}
	var state State
	if state, err = watch.Check(); err == nil && state.Unbroken {
		o.Wait(o.FrequencySpan) // the watch compares this span with that rate
		state, err = watch.Check()
	}
	r.Epoch = state.Epoch.String()
	if err != nil {
		r.Findings = append(r.Findings, Finding{"epoch", Unknown, err.Error(), "run it again"})
		return r
	}
	r.Frequency = state.Frequency
	r.Findings = append(r.Findings, frequencyFinding(state.Frequency, r.Facts), state.finding())
	return r
}

// usableCores returns the cores that this process may use: all online cores, except those that its
// control group excludes. If the process is pinned to fewer cores at the moment, the result
// includes the others, too.
func (o Options) usableCores(c Cores) []int {
	if len(c.Online) == 0 {
		allowed, _ := AllowedCores() // on an error, a finding reports the failure
		return allowed
	}
	return slices.DeleteFunc(slices.Clone(c.Online), func(core int) bool {
		return errors.Is(o.OnCore(core, func() {}), syscall.EINVAL)
	})
}

func (o Options) quantum(facts Facts) (q Quantum, err error) {
	core := 0
	if len(facts.Cores.Allowed) > 0 {
		core = facts.Cores.Allowed[0]
	}
	var failed error
	err = o.OnCore(core, func() {
		q, failed = MeasureQuantum(o.Clocks.EdgeClose, o.QuantumReadings)
	})
	if err != nil {
		return q, fmt.Errorf("measure quantum: %w", err)
	}
	return q, failed
}

// If a claimed frequency differs from the measured one by at most claimLimit_ppm, no finding
// mentions that. Crystals are within 100 ppm of the frequency that is printed on them.
const claimLimit_ppm = 200

func frequencyFinding(f *Frequency, facts Facts) Finding {
	const name = "frequency"
	if f == nil {
		return Finding{name, Unknown,
			"CLOCK_MONOTONIC_RAW moves too coarsely to measure a rate so soon",
			"run it for longer; only the display of seconds needs it"}
	}
	out := Finding{name, Fit, f.String() + "; only the display of seconds rests on it", ""}
	if claim := facts.ClaimsFreq_hz * 1000; claim != 0 {
		slack := claim / 1_000_000 * claimLimit_ppm
		if f.Hi_millihz+slack < claim || f.Lo_millihz > claim+slack {
			out.Verdict = Warning
			out.Detail += fmt.Sprintf("; CPU or hypervisor claim %d Hz", facts.ClaimsFreq_hz)
			out.Remedy = "look for \"tsc\" and \"clocksource\" in the kernel log: " +
				"one of the two clocks is wrong"
		}
	}
	return out
}
