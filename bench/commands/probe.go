package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/bench/accuracy"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

type benchProbeFlags struct {
	json    bool
	all     bool
	seconds int
	seed    uint64
	limit   time.Duration
	queries int
	plots   string
}

const (
	// fewestSeconds is the length of the shortest session that a user may ask for.
	fewestSeconds = 6

	// roundTripLimit is the limit for the round trip of an exchange, divided by the round trip of a
	// bare ping-pong.
	roundTripLimit = 1.1
	// coreLimit is the limit for the processor time of two trains a second, in percent of a core.
	coreLimit = 0.3
	// queriesWanted is the number of queries that must be compared with the truth.
	queriesWanted = 100_000
)

// halfWidthLimits_us are the bars of the windowed bound (from all trains within 10 s) with kernel
// stamps, by the declared wander.
var halfWidthLimits_us = map[tscratio.Wander]float64{100 * tscratio.PPB: 0.5, 1 * tscratio.PPM: 0.8}

func newBenchProbe() *cobra.Command {
	var flags benchProbeFlags
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "Measure how narrow bounds between two nodes are, and whether they are true",
		Long: `Measure how narrow bounds between two nodes are, and whether they are true.

It makes two nodes on this machine. As root it makes two network namespaces with a link between
them. Otherwise both nodes use the loopback interface, and the load is on that interface alone. Each
node has a virtual counter and a virtual clock. They are known functions of the machine's counter
and clock, with another offset, another rate that wanders, and a clock that is slewed. The packets,
the stamps and the load are real. The nodes exchange trains of packets. Each bound is computed for
random moments and compared with the truth.

  plain        at a train, from its best exchange alone: half of the time that its two packets
               were on their way
  intersected  at a train, from all of its packets, with the best packet of each direction
  windowed     at any moment, from all trains within 10 s of it; the product uses this bound
  paper        at any moment, by the method of the Cloudprofiler paper, which assumes that rates
               never move: here they do

"user" stamps are readings of the counter around the system calls. "kernel" stamps are the kernel's
own. A half-width is the ± of a duration from node to node, so it includes the counter's quantum and
the core slack of both nodes. w is the wander that is declared for the pair; the true wander is half
of it.

Exit code 3: a relation was suspect, or a part could not be measured here or within the limit.`,
		Example: `  sudo cp-bench probe
  sudo cp-bench probe --all --seconds 60
  sudo cp-bench probe --plots plots
  cp-bench probe --seconds 10 --json | jq 'select(.queries)'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runBenchProbe(cmd.Context(), flags, cmd.Flags().Changed,
				cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&flags.json, "json", false, "print one JSON object a line")
	cmd.Flags().BoolVar(&flags.all, "all", false,
		"also measure rates that walk randomly, ends that spin, and evenly spaced single exchanges")
	cmd.Flags().IntVar(&flags.seconds, "seconds", 25,
		"length of each session; there are 4, with --all 16")
	cmd.Flags().Uint64Var(&flags.seed, "seed", 0,
		"seed of the virtual nodes and of the queries (default another each time)")
	cmd.Flags().DurationVar(&flags.limit, "limit", 10*time.Minute,
		"begin no further part after this time; with --all 40m")
	cmd.Flags().IntVar(&flags.queries, "queries", 25_000, "queries for each row")
	cmd.Flags().StringVar(&flags.plots, "plots", "", "write plots into this directory, as SVG")
	return cmd
}

// newBenchProbePeer returns the command that runs the other end of the trains. "cp-bench probe"
// starts this command.
func newBenchProbePeer() *cobra.Command {
	return &cobra.Command{
		Use:    "probe-peer",
		Short:  "Be the other end of \"cp-bench probe\"",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return accuracy.Peer(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

func runBenchProbe(ctx context.Context, flags benchProbeFlags, given func(string) bool,
	stdout, stderr io.Writer) error {
	if flags.seconds < fewestSeconds {
		return command.Usagef("--seconds %d: a session needs %d or more",
			flags.seconds, fewestSeconds)
	}
	if flags.queries < 1 {
		return command.Usagef("--queries %d: want 1 or more", flags.queries)
	}
	size, err := proof.Wanted()
	if err != nil {
		return err
	}
	options := accuracy.Options{Repetitions: 7, WithPaper: true}
	switch {
	case size == proof.Full:
		options.Repetitions = 31
		flags.all = true
		if !given("seconds") {
			flags.seconds = 60
		}
	case size == proof.Small && !given("seconds"):
		flags.seconds, options.WithPaper = fewestSeconds, false
		if !given("queries") {
			flags.queries = 10_000 // of all rows together, more than queriesWanted
		}
	}
	if flags.all && !given("limit") {
		flags.limit = 40 * time.Minute
	}
	if !given("seed") {
		flags.seed = uint64(time.Now().UnixNano())
	}
	options.Seed, options.Limit, options.Queries = flags.seed, flags.limit, flags.queries
	options.Lasting = time.Duration(flags.seconds) * time.Second
	options.Settings = accuracy.Settings(flags.all)
	var why string
	if err := privileged.Check(); err != nil {
		options.Loopback = true
		why = "this process may not make network namespaces: " +
			"both ends are on the loopback interface"
		fmt.Fprintf(stderr, "cp-bench: %s; run it as root for two namespaces\n", why)
	}
	line := command.NewProgress(stderr)
	options.Progress = func(part, parts int, what string, elapsed time.Duration) {
		line.Show("part %d of %d: %s, %d s", part+1, parts, what, int(elapsed.Seconds()))
	}
	result, err := accuracy.Probe(ctx, options)
	line.Done()
	if err != nil {
		return fmt.Errorf("%w (--seed %d)", err, flags.seed)
	}
	bars := probeBars(result, why)
	if err := proof.Report(bars...); err != nil {
		return err
	}
	if flags.plots != "" {
		if err := writeProbePlots(flags.plots, result); err != nil {
			return err
		}
	}
	if flags.json {
		err = printProbeJSON(stdout, result)
	} else {
		err = printProbeTable(stdout, result, bars, flags)
	}
	if err != nil {
		return err
	}
	return probeVerdict(result, flags.seed)
}

// probeVerdict returns the error from which the exit code follows. If an interval does not contain
// the truth, the product has failed.
func probeVerdict(result accuracy.Result, seed uint64) error {
	outside, suspect := 0, 0
	for _, row := range result.Rows {
		if row.Bound == accuracy.Paper {
			continue
		}
		outside += row.Outside
		if row.Verdict != tscratio.Consistent {
			suspect++
		}
	}
	for _, row := range result.Papers {
		outside += row.OursBeyond
	}
	switch {
	case outside > 0:
		return fmt.Errorf("the truth of %d queries is not in its bound: this is a defect; "+
			"repeat with --seed %d", outside, seed)
	case suspect > 0:
		return fmt.Errorf("%d rows are of suspect relations: %w", suspect, command.ErrPartial)
	case len(result.Left) > 0:
		return fmt.Errorf("not begun before the limit: %s: %w",
			strings.Join(result.Left, "; "), command.ErrPartial)
	case result.RoundTrips.Absent != "":
		return fmt.Errorf("round trips: %s: %w", result.RoundTrips.Absent, command.ErrPartial)
	}
	return nil
}

func load(s bool) string {
	if s {
		return "tcp"
	}
	return "idle"
}

func mode(spin bool) string {
	if spin {
		return "spinning"
	}
	return "blocking"
}

func schedule(s accuracy.Setting) string {
	if s.Exchanges == 1 {
		return "singles"
	}
	return "trains"
}

// barsApply reports whether the bars apply to sessions with this setting.
func barsApply(s accuracy.Setting) bool { return !s.Spin && s.Exchanges > 1 }

// probeBars compares the figures with their limits. If loopback is not empty, it is the reason why
// the bars of two namespaces cannot be measured.
func probeBars(result accuracy.Result, loopback string) []proof.Bar {
	var bars []proof.Bar
	add := func(bar proof.Bar, figures []float64) {
		if loopback != "" {
			bar.Absent = loopback
		} else {
			bar = bar.From(figures)
		}
		bars = append(bars, bar)
	}
	for _, loaded := range []bool{false, true} {
		queries, outside, suspect := 0, 0, 0
		for _, w := range []tscratio.Wander{100 * tscratio.PPB, 1 * tscratio.PPM} {
			var halves []float64
			for _, row := range result.Rows {
				if row.Load != loaded || row.Wander != w || row.Bound == accuracy.Paper {
					continue
				}
				queries += row.Queries
				outside += row.Outside
				if row.Verdict != tscratio.Consistent {
					suspect++
				}
				if barsApply(row.Setting) && row.Name() == "windowed-kernel" {
					halves = append(halves, accuracy.Median(row.HalfWidths_us))
				}
			}
			add(proof.Bar{
				Name:  fmt.Sprintf("windowed-kernel half-width, w = %v, %s", w, load(loaded)),
				Limit: halfWidthLimits_us[w], Unit: "µs", Timing: true,
			}, halves)
		}
		add(proof.Bar{Name: "queries between namespaces, " + load(loaded),
			Limit: queriesWanted, AtLeast: true, Unit: "queries"}, []float64{float64(queries)})
		add(proof.Bar{Name: "truths outside of their bounds, " + load(loaded),
			Unit: "queries"}, []float64{float64(outside)})
		add(proof.Bar{Name: "suspect rows, " + load(loaded), Unit: "rows"},
			[]float64{float64(suspect)})
	}
	trip := proof.Bar{
		Name:  "spinning round trip",
		Limit: roundTripLimit, Unit: "× bare ping-pong", Timing: true,
	}
	trip = trip.From(result.RoundTrips.Ratios)
	if trip.Absent != "" && result.RoundTrips.Absent != "" {
		trip.Absent = result.RoundTrips.Absent
	}
	bars = append(bars, trip)
	cost := proof.Bar{Limit: coreLimit, Unit: "% of a core", Timing: true}
	var probers, answerers []float64
	for _, c := range result.Costs {
		if barsApply(c.Setting) && !c.Load {
			probers, answerers = append(probers, 100*c.Prober), append(answerers, 100*c.Answerer)
		}
	}
	cost.Name = "two trains a second, prober"
	bars = append(bars, cost.From(probers))
	cost.Name = "two trains a second, answerer"
	bars = append(bars, cost.From(answerers))
	return bars
}

func printProbeTable(w io.Writer, result accuracy.Result, bars []proof.Bar,
	flags benchProbeFlags) error {
	where := "two network namespaces"
	if result.Loopback {
		where = "the loopback interface"
	}
	fmt.Fprintf(w, "%s; two virtual nodes on %s\n", thisMachine(), where)
	m := result.Machine
	fmt.Fprintf(w, "counter of %.0f MHz in steps of %d cycles, cores within %d cycles (%.0f ns); "+
		"sessions of %d s; --seed %d\n",
		float64(m.Hz)/1e6, m.Quantum_cycles, m.Slack_cycles, 1000*m.Micros(float64(m.Slack_cycles)),
		flags.seconds, flags.seed)

	fmt.Fprintf(w, "\na duration from node to node is known to ± the median half-width, in µs; "+
		"90 %% of the queries have one from – to\n")
	for i, row := range result.Rows {
		if i == 0 || row.Setting != result.Rows[i-1].Setting {
			fmt.Fprintf(w, "\n%s\n", sessionTitle(row))
			fmt.Fprintf(w, "  %-20s %7s  %-15s %8s %8s  %s\n",
				"bound and stamps", "median", "from – to", "queries", "outside", "verdict")
		}
		verdict := row.Verdict.String()
		if row.Bound == accuracy.Paper {
			verdict = "assumes that rates never move"
		}
		halves := row.HalfWidths_us
		spread := fmt.Sprintf("%.3f – %.3f",
			accuracy.Quantile(halves, 0.05), accuracy.Quantile(halves, 0.95))
		fmt.Fprintf(w, "  %-20s %7.3f  %-15s %8d %8d  %s\n",
			row.Name(), accuracy.Median(halves), spread, row.Queries, row.Outside, verdict)
	}

	if len(result.Papers) > 0 {
		fmt.Fprintf(w, "\nthe paper's method against ours on the same exchanges: user stamps, "+
			"rates that do not move, w = 0; half-widths, µs\n")
		fmt.Fprintf(w, "  %-20s %-8s %-5s %8s %8s %7s  %8s %8s\n",
			"paper's bound", "ends", "load", "paper", "ours", "ratio", "queries", "outside")
		for _, p := range result.Papers {
			fmt.Fprintf(w, "  %-20s %-8s %-5s %8.3f %8.3f %7.2f  %8d %8d\n",
				p.Name(), mode(p.Spin), load(p.Load),
				accuracy.Median(p.Paper_us), accuracy.Median(p.Ours_us), accuracy.Median(p.Ratios),
				p.Queries, p.Outside)
		}
	}

	if t := result.RoundTrips; t.Absent == "" && len(t.Ratios) > 0 {
		row := func(name string, smallest, median []float64) {
			fmt.Fprintf(w, "  %-20s %8.3f %8.3f\n",
				name, accuracy.Median(smallest), accuracy.Median(median))
		}
		fmt.Fprintf(w, "\nround trips, both ends spinning, less the hold time; "+
			"medians of %d repetitions, µs\n", len(t.Ratios))
		fmt.Fprintf(w, "  %-20s %8s %8s\n", "", "smallest", "median")
		row("trains", t.Smallest_us, t.Median_us)
		row("bare system calls", t.BareSmallest_us, t.BareMedian_us)
	}
	fmt.Fprintln(w)
	for _, bar := range bars {
		fmt.Fprintf(w, "%s\n", bar)
	}
	return nil
}

// sessionTitle describes the conditions under which a session was measured.
func sessionTitle(row accuracy.Row) string {
	kind := fmt.Sprintf("trains of 1 and %d exchanges, %d a second", row.Exchanges, row.PerSecond)
	if schedule(row.Setting) == "singles" {
		kind = fmt.Sprintf("evenly spaced single exchanges after a warm-up, %d a second",
			row.PerSecond)
	}
	link := "idle link"
	if row.Load {
		link = fmt.Sprintf("link under %.0f Gbit/s of TCP", row.LoadGbit)
	}
	shape := "as a sine"
	if row.Shape == vnode.Walk {
		shape = "as a random walk"
	}
	title := fmt.Sprintf("%s, ends %s, %s, w = %v (rates move by %.2f ppm %s)",
		kind, mode(row.Spin), link, row.Wander, row.TrueWander.PPM(), shape)
	if row.Failed > 0 {
		title += fmt.Sprintf("; %d of %d trains came to nothing", row.Failed, row.Failed+row.Trains)
	}
	return title
}

// probeLine is a row of "cp-bench probe --json". Scripts read it: append only.
type probeLine struct {
	Name        string  `json:"name"`
	W_ppm       float64 `json:"w_ppm"`
	Verdict     string  `json:"verdict"`
	Load        string  `json:"load"`
	HalfWidth   float64 `json:"half_width_us_median"`
	Queries     int     `json:"queries"`
	Outside     int     `json:"outside"`
	Mode        string  `json:"mode"`
	Schedule    string  `json:"schedule,omitempty"`
	Shape       string  `json:"wander_shape"`
	True_ppm    float64 `json:"true_wander_ppm"`
	Least_ppm   float64 `json:"w_min_ppm"`
	P5          float64 `json:"half_width_us_p5"`
	P95         float64 `json:"half_width_us_p95"`
	Trains      int     `json:"trains,omitempty"`
	Failed      int     `json:"failed_trains,omitempty"`
	LoadGbit    float64 `json:"load_gbit_s,omitempty"`
	Ours        float64 `json:"ours_us_median,omitempty"`
	Ratio       float64 `json:"ratio_to_ours,omitempty"`
	OursOutside *int    `json:"ours_outside,omitempty"`
}

// tripLine and costLine are the rows about round trips and about processor time.
type tripLine struct {
	Name         string  `json:"name"`
	Smallest     float64 `json:"smallest_us"`
	Median       float64 `json:"median_us"`
	BareSmallest float64 `json:"bare_smallest_us"`
	BareMedian   float64 `json:"bare_median_us"`
	Ratio        float64 `json:"ratio_to_bare"`
	Reps         int     `json:"reps"`
}

type costLine struct {
	Name     string  `json:"name"`
	Load     string  `json:"load"`
	Mode     string  `json:"mode"`
	Schedule string  `json:"schedule"`
	Seconds  float64 `json:"seconds"`
	Prober   float64 `json:"prober_core_percent"`
	Answerer float64 `json:"answerer_core_percent"`
}

func printProbeJSON(w io.Writer, result accuracy.Result) error {
	encoder := json.NewEncoder(w)
	for _, row := range result.Rows {
		line := probeLine{
			Name: row.Name(), W_ppm: row.Wander.PPM(), Verdict: row.Verdict.String(),
			Load: load(row.Load), LoadGbit: row.LoadGbit,
			HalfWidth: accuracy.Median(row.HalfWidths_us),
			P5:        accuracy.Quantile(row.HalfWidths_us, 0.05),
			P95:       accuracy.Quantile(row.HalfWidths_us, 0.95),
			Queries:   row.Queries, Outside: row.Outside,
			Mode: mode(row.Spin), Schedule: schedule(row.Setting), Shape: string(row.Shape),
			True_ppm: row.TrueWander.PPM(), Least_ppm: row.Least.PPM(),
			Trains: row.Trains, Failed: row.Failed,
		}
		if line.Schedule == "singles" {
			line.Name += "-singles"
		}
		if row.Bound == accuracy.Paper {
			line.W_ppm, line.Verdict = 0, "assumed"
		}
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	for _, p := range result.Papers {
		line := probeLine{
			Name: p.Name(), Verdict: tscratio.Consistent.String(), Load: load(p.Load),
			HalfWidth: accuracy.Median(p.Paper_us),
			P5:        accuracy.Quantile(p.Paper_us, 0.05),
			P95:       accuracy.Quantile(p.Paper_us, 0.95),
			Queries:   p.Queries, Outside: p.Outside, Mode: mode(p.Spin), Shape: "none",
			Ours: accuracy.Median(p.Ours_us), Ratio: accuracy.Median(p.Ratios),
			OursOutside: &p.OursBeyond,
		}
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	if t := result.RoundTrips; len(t.Ratios) > 0 {
		line := tripLine{
			Name:     "round-trip",
			Smallest: accuracy.Median(t.Smallest_us), Median: accuracy.Median(t.Median_us),
			BareSmallest: accuracy.Median(t.BareSmallest_us),
			BareMedian:   accuracy.Median(t.BareMedian_us),
			Ratio:        accuracy.Median(t.Ratios), Reps: len(t.Ratios),
		}
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	for _, c := range result.Costs {
		line := costLine{
			Name: "cost", Load: load(c.Load), Mode: mode(c.Spin), Schedule: schedule(c.Setting),
			Seconds: c.Lasted.Seconds(),
			Prober:  100 * c.Prober, Answerer: 100 * c.Answerer,
		}
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	return nil
}
