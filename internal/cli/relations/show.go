package relations

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

func newRelationShow() *cobra.Command {
	var flags relationFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use: "show FILE",
		Short: "Show how well two counters are known, under which assumptions, and whether the " +
			"data contradict these",
		Long: `Show how well two counters are known, under which assumptions, and whether the data
contradict these.

If a reading of one counter is translated into the other counter, the result is an interval. The
bound is half of its width. The command prints the median, the 90th percentile and the largest value
of the bound over the time of the measurement. It also prints the wander that was used, and the
smallest wander that the data allow. If the smallest is more than half of the wander used, the
verdict is suspect and the bounds are estimates. Contradictions say when something happened, and
what: a rate that changed, a step, a reset.

Exit code 1: the file cannot be read, or the data refute every bound. Exit code 3: the relation is
suspect.`,
		Example: `  cprof relation show a--b.rel
  cprof relation show a--b.rel --wander 0.1ppm
  cprof relation show a--b.rel --into b --json | jq .bound_us.median
  cprof relation show a--b.rel --with b--a.rel`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pair, err := readPair(args[0], flags.with)
			if err != nil {
				return err
			}
			if _, err := sideOf(pair, flags.into, tscratio.SideA, "--into"); err != nil {
				return err
			}
			relation, why := flags.relate(pair)
			s := summarize(pair, relation, why)
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(s.json())
			} else {
				err = s.print(cmd.OutOrStdout())
			}
			if err != nil {
				return err
			}
			return s.err()
		},
	}
	flags.add(cmd)
	flags.addInto(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// print writes the summary for people to read.
func (s *summary) print(w io.Writer) error {
	p := s.pair
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-15s %s\n", name, fmt.Sprintf(format, args...))
	}
	for i, n := range []tscratio.Node{p.A, p.B} {
		line([]string{"node A", "node B"}[i], "%s, nominal %.4f GHz, quantum %d cycles, core "+
			"slack %d cycles, epoch %s",
			n.Name, float64(n.Nominal_hz)/1e9, n.Quantum_cycles, n.CoreSlack_cycles,
			cmp.Or(n.Epoch, "(unnamed)"))
	}
	d := p.Declared
	line("assumed", "the relative rate stays within %v of its mean in any ±%v, no epoch is "+
		"broken, cores agree within their slack",
		d.Wander, d.Window)
	if s.stamps.Kernel > 0 {
		for _, a := range tscratio.StampsAssumed() {
			line("", "of the kernel's stamps: %s", a.Means)
		}
	}
	if s.stamps.Shared > 0 {
		line("", "of the shared clock, which both nodes saw at %d moments: %s", s.stamps.Shared,
			tscratio.SharedAssumed().Means)
	}
	line("measured", "%d trains (%d by %s, %d by %s), %d exchanges, over %v",
		s.trains, s.byA, p.A.Name, s.trains-s.byA, p.B.Name, s.exchanges,
		s.span.Round(100*time.Millisecond))
	line("constraints", "%d kept, %d pruned; any wander up to %v can be assumed",
		s.kept, max(0, s.gathered-s.kept), d.MaxWander)
	line("stamps", "%s", s.stampText())
	r := s.relation
	if r == nil {
		line("verdict", "none: no bound can be given")
	} else {
		line("wander", "computed with %v; %s", r.Wander, describeRefuted(r.Least))
		line("verdict", "%s", s.verdictText())
		if lo, hi, ok := s.meanRate(); ok {
			line("rate", "%.12f ± %.3g ppm cycles of %s per cycle of %s, on the mean",
				(lo+hi)/2, (hi-lo)/(lo+hi)*1e6, r.Into.Name, r.From.Name)
		}
		line("bound", "median ± %s, nine tenths within ± %s, largest ± %s, at the "+
			"nominal rate of %s",
			formatMicroseconds(quantile(s.halves_us, 0.5)),
			formatMicroseconds(quantile(s.halves_us, 0.9)),
			formatMicroseconds(quantile(s.halves_us, 1)),
			r.Into.Name)
		limits := r.Limits()
		line("translates", "readings of %s from %d to %d, up to %v beyond what was measured",
			r.From.Name, limits.Lo, limits.Hi, d.ExtrapolationLimit)
	}
	for _, c := range s.contradictions() {
		line("contradiction", "%s", s.contradictionText(c))
	}
	return nil
}

// describeRefuted returns a sentence that says which limits on the wander contradict the data.
func describeRefuted(least tscratio.Wander) string {
	if least == 0 {
		return "the data refute none"
	}
	return fmt.Sprintf("the data refute every one below %.3g ppm", least.PPM())
}

// formatMicroseconds formats a bound with three digits, rounded up.
func formatMicroseconds(v float64) string {
	digits := 3
	for limit := 1.0; v >= limit && digits > 0; limit *= 10 {
		digits--
	}
	return strconv.FormatFloat(command.RoundUp(v, digits), 'f', digits, 64) + " µs"
}

func (s *summary) stampText() string {
	kernel, user := uint64(s.stamps.Kernel), uint64(s.stamps.User)
	switch {
	case kernel+user == 0:
		return "not recorded"
	case user == 0:
		return fmt.Sprintf("%d, all of the kernel", kernel)
	case kernel == 0:
		return fmt.Sprintf("%d, all around system calls: the kernel gave none, so bounds are wider",
			user)
	}
	return fmt.Sprintf("%d of the kernel, %d around system calls", kernel, user)
}

func (s *summary) verdictText() string {
	if s.relation.Verdict == tscratio.Consistent {
		return "consistent"
	}
	return fmt.Sprintf("SUSPECT: the assumed wander is less than twice what the data prove; "+
		"bounds are estimates, computed with %v", s.relation.Wander)
}

// contradictionText describes a contradiction. It adds the time since the first constraint to
// tscratio's text, which gives only cycles.
func (s *summary) contradictionText(c tscratio.Contradiction) string {
	node, first := s.pair.B, uint64(0)
	if c.From == s.pair.A.Name {
		node = s.pair.A
	}
	started := false
	for k := range s.pair.Kept() {
		extent := k.B
		if c.From == s.pair.A.Name {
			extent = k.A
		}
		if !started || extent.Lo < first {
			first, started = extent.Lo, true
		}
	}
	at := func(reading uint64) string {
		return fmt.Sprintf("%.3f", float64(int64(reading-first))/float64(node.Nominal_hz))
	}
	return fmt.Sprintf("%s to %s s after the first train: %v", at(c.At.Lo), at(c.At.Hi), c)
}

// These types are lines that --json prints. Scripts read them, so fields may only be added.
type (
	relationJSON struct {
		A              nodeJSON            `json:"a"`
		B              nodeJSON            `json:"b"`
		From           string              `json:"from,omitempty"`
		Into           string              `json:"into,omitempty"`
		Declared_ppm   float64             `json:"declared_wander_ppm"`
		Max_ppm        float64             `json:"max_wander_ppm"`
		Window_s       float64             `json:"window_s"`
		Limit_s        float64             `json:"extrapolation_limit_s"`
		Trains         int                 `json:"trains"`
		TrainsByA      int                 `json:"trains_by_a"`
		Exchanges      int                 `json:"exchanges"`
		Kept           int                 `json:"constraints_kept"`
		Pruned         int                 `json:"constraints_pruned"`
		SharedMoments  uint32              `json:"shared_moments,omitempty"`
		KernelStamps   uint32              `json:"kernel_stamps"`
		UserStamps     uint32              `json:"user_stamps"`
		Span_s         float64             `json:"span_s"`
		W_ppm          *float64            `json:"w_ppm,omitempty"`
		WMin_ppm       *float64            `json:"w_min_ppm,omitempty"`
		Verdict        string              `json:"verdict"` // consistent, suspect or none
		Why            string              `json:"why,omitempty"`
		Rate           *intervalJSON       `json:"rate,omitempty"`
		Bound_us       *boundJSON          `json:"bound_us,omitempty"`
		LimitLo        string              `json:"limit_lo_cycles,omitempty"`
		LimitHi        string              `json:"limit_hi_cycles,omitempty"`
		Contradictions []contradictionJSON `json:"contradictions,omitempty"`
	}
	nodeJSON struct {
		Name       string `json:"name"`
		Epoch      string `json:"epoch"`
		Nominal_hz string `json:"nominal_hz"`
		Quantum    string `json:"quantum_cycles"`
		CoreSlack  string `json:"core_slack_cycles"`
	}
	intervalJSON struct {
		Lo float64 `json:"lo"`
		Hi float64 `json:"hi"`
	}
	boundJSON struct {
		Median float64 `json:"median"`
		P90    float64 `json:"p90"`
		Max    float64 `json:"max"`
	}
	contradictionJSON struct {
		Fault     string  `json:"fault"`
		From      string  `json:"from"`
		Into      string  `json:"into"`
		Lo        string  `json:"lo_cycles"`
		Hi        string  `json:"hi_cycles"`
		Asked_ppm float64 `json:"asked_ppm"`
		Least_ppm float64 `json:"least_ppm"`
		JumpLo    string  `json:"jump_lo_cycles,omitempty"`
		JumpHi    string  `json:"jump_hi_cycles,omitempty"`
	}
)

func decimal(v uint64) string { return strconv.FormatUint(v, 10) }

func (s *summary) json() relationJSON {
	node := func(n tscratio.Node) nodeJSON {
		return nodeJSON{n.Name, n.Epoch, decimal(n.Nominal_hz), decimal(n.Quantum_cycles),
			decimal(n.CoreSlack_cycles)}
	}
	p, d := s.pair, s.pair.Declared
	j := relationJSON{
		A: node(p.A), B: node(p.B),
		Declared_ppm: d.Wander.PPM(), Max_ppm: d.MaxWander.PPM(), Window_s: d.Window.Seconds(),
		Limit_s: d.ExtrapolationLimit.Seconds(),
		Trains:  s.trains, TrainsByA: s.byA, Exchanges: s.exchanges, Kept: s.kept,
		Pruned:        max(0, s.gathered-s.kept),
		SharedMoments: s.stamps.Shared,
		KernelStamps:  s.stamps.Kernel, UserStamps: s.stamps.User, Span_s: s.span.Seconds(),
		Verdict: s.verdict(),
	}
	for _, c := range s.contradictions() {
		cj := contradictionJSON{
			Fault: c.Fault.String(), From: c.From, Into: c.Into, Lo: decimal(c.At.Lo),
			Hi:        decimal(c.At.Hi),
			Asked_ppm: c.Asked.PPM(), Least_ppm: c.Least.PPM(),
		}
		if c.Fault == tscratio.Stepped {
			cj.JumpLo, cj.JumpHi = strconv.FormatInt(c.Jump_cycles.Lo, 10),
				strconv.FormatInt(c.Jump_cycles.Hi, 10)
		}
		j.Contradictions = append(j.Contradictions, cj)
	}
	r := s.relation
	if r == nil {
		j.Why = s.why.Error()
		return j
	}
	w, least := r.Wander.PPM(), r.Least.PPM()
	j.From, j.Into, j.W_ppm, j.WMin_ppm = r.From.Name, r.Into.Name, &w, &least
	j.Bound_us = &boundJSON{quantile(s.halves_us, 0.5), quantile(s.halves_us, 0.9),
		quantile(s.halves_us, 1)}
	if lo, hi, ok := s.meanRate(); ok {
		j.Rate = &intervalJSON{lo, hi}
	}
	limits := r.Limits()
	j.LimitLo, j.LimitHi = decimal(limits.Lo), decimal(limits.Hi)
	return j
}
