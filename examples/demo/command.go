package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/cli/answers"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/daemon"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// Main runs "cprof demo" and returns the exit code. It gets the command line without the program's
// name.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use: "cprof", Short: "The demonstration", Version: daemon.Version("cprof"),
	}
	root.AddCommand(newDemo(), NewProcess())
	return command.Run(ctx, root, args, stdout, stderr)
}

func newDemo() *cobra.Command {
	var o Options
	var asJSON bool
	var load_mbit int
	var place bool
	cmd := &cobra.Command{
		Use: "demo",
		Short: "Run the whole product on this machine: virtual nodes, a streaming job, latencies " +
			"with bounds",
		Long: `Run the whole product on this machine, with nothing to configure.

It makes four virtual nodes. Their counters began at different times, run at different rates and
wander. Their clocks are wrong and slewed. As root, each node gets a network namespace of its own.
Otherwise all nodes share the loopback interface.

A coordinator and an agent on each node run an experiment, as they do on a fleet. First the nodes
measure anchors. Then the advertising benchmark runs across the nodes, with every operator
instrumented. Meanwhile nodes exchange trains, and another load is on the network. At the end the
nodes measure anchors again. All logs are collected into one run directory, which is analysed like
any other.

Because the nodes are virtual, the truth is known. The last column says whether the interval of
every duration contains it. All must.

With --place, the demo also shows how measured latencies help to place a job. "cprof place" proposes
nodes for the job's operators: it knows how long tuples travelled and operators worked in the run.
Then the job runs again in this placement, and the demo compares the latencies of both runs. This
takes twice as long.

The demo takes about a minute and leaves nothing behind. --keep DIR keeps the run, with its page
DIR/report.html. "cprof analyze DIR" says more about the run.

Exit code 1: a duration did not contain the truth. Exit code 3: tuples were lost, or a relation is
suspect.`,
		Example: "  cprof demo\n" +
			"  cprof demo --keep tuesday\n" +
			"  cprof demo --place\n" +
			"  cprof demo --tuples 20000 --rate 10000\n" +
			"  cprof demo --json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.LoadBytes = load_mbit * 1e6 / 8
			out, progress := cmd.OutOrStdout(), cmd.ErrOrStderr()
			return runDemo(cmd.Context(), o, load_mbit, place, asJSON, out, progress)
		},
	}
	cmd.Flags().IntVar(&o.Tuples, "tuples", 90_000, "tuples to send")
	cmd.Flags().IntVar(&o.PerSecond, "rate", 4_000, "tuples to send a second")
	cmd.Flags().IntVar(&o.Exchanges, "exchanges", 100,
		"exchanges of the paper's method, each way, before the job and again after it")
	cmd.Flags().IntVar(&load_mbit, "load", 100,
		"other load on the network, from one node to another, in Mbit/s; 0: none")
	cmd.Flags().BoolVar(&o.Loopback, "loopback", false,
		"put all nodes on the loopback interface, as without root")
	cmd.Flags().StringVar(&o.Keep, "keep", "",
		"`directory` to make, in which to keep the run with its page report.html")
	cmd.Flags().BoolVar(&place, "place", false,
		"run the job again where cprof place puts its operators, and compare")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// UntilClean returns a context that ends with ctx or at a signal. Further signals are ignored until
// release is called. Cleaning up takes a few seconds, and another signal must not stop it.
func UntilClean(ctx context.Context) (_ context.Context, release func()) {
	return signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
}

// ProcessCommand returns the command line of a process of "cprof demo", given this program's path.
func ProcessCommand(self string) []string { return []string{self, "demo-process"} }

// NewProcess returns the hidden command with which "cprof demo" starts its processes.
func NewProcess() *cobra.Command {
	return &cobra.Command{
		Use:     "demo-process",
		Short:   "Run one of the processes of cprof demo, which starts it",
		Hidden:  true,
		Example: "  cprof demo",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return Process(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// maxDemoTuples is the largest number of tuples that fit into memory while they are compared with
// the truth.
const maxDemoTuples = 1_000_000

// longestDemo is the longest duration of the job that a user may ask for.
const longestDemo = 5 * time.Minute

func runDemo(
	ctx context.Context, o Options, load_mbit int, place, asJSON bool, stdout, stderr io.Writer,
) error {
	switch {
	case o.Tuples < 1 || o.Tuples > maxDemoTuples:
		return command.Usagef("--tuples %d: give 1 to %d", o.Tuples, maxDemoTuples)
	case o.PerSecond < 1 || o.PerSecond > 1_000_000:
		return command.Usagef("--rate %d: give 1 to 1000000", o.PerSecond)
	case time.Duration(o.Tuples)*time.Second/time.Duration(o.PerSecond) > longestDemo:
		return command.Usagef("--tuples %d at --rate %d: this takes longer than %v: "+
			"give fewer tuples or a higher rate", o.Tuples, o.PerSecond, longestDemo)
	case o.Exchanges < 1 || o.Exchanges > 10_000:
		return command.Usagef("--exchanges %d: give 1 to 10000", o.Exchanges)
	case load_mbit < 0 || load_mbit > 100_000:
		return command.Usagef("--load %d: give 0 to 100000", load_mbit)
	}
	if o.Keep != "" {
		if _, err := os.Lstat(o.Keep); err == nil {
			return command.Usagef("--keep %q: it exists: name a directory that does not", o.Keep)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	o.Command, o.Program = ProcessCommand(self), daemon.Version("cprof")
	ctx, release := UntilClean(ctx)
	defer release()
	line := command.NewProgress(stderr)
	o.Progress = func(step string) { line.Show("%s …", step) }
	result, moved, err := runPlaced(ctx, o, place)
	line.Done()
	if err != nil {
		return err
	}
	if asJSON {
		err = printDemoJSON(stdout, result, moved)
	} else {
		err = printDemo(stdout, result, moved, o)
	}
	if err != nil {
		return err
	}
	size, err := proof.Wanted()
	if err != nil {
		return err
	}
	if err := proof.Report(demoBars(result, size)...); err != nil {
		return err
	}
	checked, _, outside := result.Checked()
	err = Failure(result, checked, outside)
	if err == nil && moved != nil {
		checked, _, outside = moved.After.Checked()
		err = Failure(moved.After, checked, outside)
	}
	return err
}

// runPlaced runs the demonstration. If place is set, it then runs the job a second time, in the
// placement that "cprof place" proposes.
func runPlaced(ctx context.Context, o Options, place bool) (*Result, *Placed, error) {
	if place {
		return RunPlaced(ctx, o)
	}
	result, err := Run(ctx, o)
	return result, nil, err
}

// Failure returns an error if a demonstration did not show what it must show.
func Failure(r *Result, checked, outside int) error {
	switch {
	case outside > 0:
		return fmt.Errorf("%d of %d durations did not contain the truth: this is a defect",
			outside, checked)
	case !r.Consistent():
		return fmt.Errorf("a relation is suspect, so bounds are estimates: %w", command.ErrPartial)
	case r.Lost > 0:
		return fmt.Errorf("%d tuples or events were lost, of %d tuples: %w",
			r.Lost, r.Tuples, command.ErrPartial)
	}
	return nil
}

// These are the limits that the demonstration must keep with its default flags.
const (
	demoDurations    = 1_000_000
	demoHalfWidth_us = 0.8
	demoNarrower     = 10
)

// Microseconds converts a half-width from cycles of node A, the reference, to µs, rounded up.
func Microseconds(r *Result, cycles float64) float64 {
	return r.Answer.Reference.Microseconds_up(int64(math.Ceil(cycles)))
}

// demoBars returns the bars that a demonstration must meet. The median half-width is a bar only at
// full size, because it is small only on a machine with nothing else to do.
func demoBars(r *Result, size proof.Size) []proof.Bar {
	checked, between, outside := r.Checked()
	suspect := 0
	if !r.Consistent() {
		suspect = 1
	}
	half := r.HalfWidth_cycles()
	width := proof.Bar{
		Name: "median half-width between nodes", Figure: Microseconds(r, half),
		Limit: demoHalfWidth_us, Unit: "µs", Timing: true,
	}
	narrower := proof.Bar{
		Name: "the paper's bound over ZeroMQ", Figure: r.Paper.HalfWidth_cycles(r.Wander) / half,
		Limit: demoNarrower, AtLeast: true, Unit: "× as wide", Timing: true,
	}
	if !r.Namespaces {
		width.Absent = fmt.Sprintf("no network namespaces: %v", r.WhyLoopback)
		narrower.Absent = width.Absent
	}
	betweenPercent := 100 * float64(between) / float64(max(checked, 1))
	wanted := demoDurations
	if size == proof.Small {
		wanted /= 5
	}
	bars := []proof.Bar{{
		Name: "durations checked against the truth", Figure: float64(checked),
		Limit: float64(wanted), AtLeast: true, Unit: "durations",
	}, {
		Name: "of them between nodes", Figure: betweenPercent,
		Limit: 50, AtLeast: true, Unit: "%",
	}, {
		Name: "outside of their bound", Figure: float64(outside), Unit: "durations",
	}, {
		Name: "demonstrations with a relation that is not consistent", Figure: float64(suspect),
		Unit: "of one",
	}, {
		Name: "tuples and events lost", Figure: float64(r.Lost), Unit: "events",
	}, narrower}
	if size == proof.Full {
		bars = append(bars, width)
	}
	return bars
}

// demoVerdict returns the worst verdict of all relations, and the smallest wander that the
// exchanges of all relations allow.
func demoVerdict(r *Result) (verdict string, least_ppm float64) {
	verdict = "consistent"
	if !r.Consistent() {
		verdict = "suspect"
	}
	for _, p := range r.Answer.Pairs {
		least_ppm = max(least_ppm, p.LeastWander_ppm)
	}
	return verdict, least_ppm
}

func printDemo(w io.Writer, r *Result, moved *Placed, o Options) error {
	printNodes(w, r)
	printBound(w, r)
	printSpans(w, r)
	printMethods(w, r)
	checked, between, outside := r.Checked()
	_, err := fmt.Fprintf(w, "\n%d durations checked against the truth, %d of them between nodes: "+
		"%d outside of their bound; %d tuples, %d lost\n",
		checked, between, outside, r.Tuples, r.Lost)
	if o.Keep != "" && err == nil {
		_, err = fmt.Fprintf(w, "the run is in %s; its page %s/report.html checks %d durations "+
			"against the truth, by the logs alone\n", o.Keep, o.Keep, r.Answer.Held.Count)
	}
	if moved != nil && err == nil {
		err = printPlaced(w, moved, o)
	}
	return err
}

func printNodes(w io.Writer, r *Result) {
	for _, n := range r.Nodes {
		fmt.Fprintf(w, "node %s   counter began at %20d, runs %+.2f ppm, wanders (%s)\n",
			n.Name, n.Start, n.Rate, n.Shape)
	}
	where := "in network namespaces"
	if !r.Namespaces {
		where = "on the loopback interface"
	}
	fmt.Fprintf(w, "\n%d counters %s, assuming that their relative rates stay within %g ppm "+
		"over ±%gs\n", len(r.Nodes), where, r.Wander.PPM(), r.Answer.Pairs[0].Window_s)
	if r.WhyLoopback != nil {
		fmt.Fprintf(w, "  not in network namespaces of their own: %v\n", r.WhyLoopback)
	}
}

// bound converts a bound from cycles of node A, the reference, to seconds, rounded up.
func (r *Result) bound(cycles float64) string {
	return r.Answer.Reference.Bound(int64(math.Ceil(cycles)))
}

func printBound(w io.Writer, r *Result) {
	half, paper := r.HalfWidth_cycles(), r.Paper.HalfWidth_cycles(r.Wander)
	verdict, least_ppm := demoVerdict(r)
	fmt.Fprintf(w, "  verdict     %s: the least wander that the exchanges allow is %.3g ppm\n",
		verdict, least_ppm)
	fmt.Fprintf(w, "  exchanges   %d in %d trains; %d of %d stamps by the kernel\n",
		r.Exchanges, r.Trains, r.Kernel, r.Stamps)
	fmt.Fprintf(w, "  bound       ± %.0f cycles of A (± %s), median of the durations between "+
		"nodes\n", half, r.bound(half))
	fmt.Fprintf(w, "  the paper's ± %.0f cycles of A (± %s), %.1f times as wide: half of the "+
		"smallest of %d round trips over ZeroMQ, and the wander in between\n",
		paper, r.bound(paper), paper/half, r.Paper.Exchanges/max(len(r.Paper.Anchors), 1))
}

// otherMethods are the methods with which our method is compared. For each of these methods there
// is a column with the bound that the method would have claimed.
var otherMethods = []string{analysis.MinRTT, analysis.ReT, analysis.NTP}

func printSpans(w io.Writer, r *Result) {
	reference := &r.Answer.Reference
	fmt.Fprintf(w, "\nlatencies by the cycles of node %s, then the bounds that other methods "+
		"would have claimed between nodes;\n%s\n\n", reference.Node, reference.SecondsMean())
	fmt.Fprintf(w, "%-35s %7s %7s  %22s  %22s", "from → to", "tuples", "crossed", "p50", "p99")
	for _, method := range otherMethods {
		fmt.Fprintf(w, " %9s", "± "+method)
	}
	fmt.Fprintf(w, "  %s\n", "truth")
	for _, h := range r.Spans {
		switch {
		case !h.Since:
			printSpan(w, r, h.From+" → "+h.To, h)
		case h.To == LastPoint:
			printSpan(w, r, "all the way, to "+h.To, h)
		}
	}
	answers.PrintPaths(w, r.Answer)
	fmt.Fprintln(w, "  windows wait on purpose, and all of them end at once")
	fmt.Fprintln(w, "  if source/intended → source/start is slowest, this machine is too slow "+
		"for the load")
}

func printSpan(w io.Writer, r *Result, name string, h *Span) {
	reference := &r.Answer.Reference
	text := func(percent float64) string {
		p, _ := h.Percentiles.At(percent)
		return reference.Seconds(p)
	}
	fmt.Fprintf(w, "%-35s %7d %7d  %22s  %22s",
		name, len(h.Durations), h.Crosses, text(50), text(99))
	for _, method := range otherMethods {
		claimed := "-"
		if bound, ok := r.Claimed_cycles(h, method); ok {
			claimed = reference.Bound(bound)
		}
		fmt.Fprintf(w, " %9s", claimed)
	}
	truth := "all inside"
	if h.Outside > 0 {
		truth = fmt.Sprintf("%d OUTSIDE", h.Outside)
	}
	fmt.Fprintf(w, "  %s\n", truth)
}

func printMethods(w io.Writer, r *Result) {
	fmt.Fprintln(w, "\nminrtt is the paper's method on this run's own exchanges, with the wander "+
		"since its anchors")
	fmt.Fprintln(w, "ret takes a tuple's latency from the return trip of its acknowledgement")
	switch {
	case r.WhyNoNTP != nil:
		fmt.Fprintf(w, "ntp: %v\n", r.WhyNoNTP)
	case r.NTP:
		fmt.Fprintln(w, "ntp is what chronyd claims of the one CLOCK_REALTIME that all nodes here "+
			"share, so their true offset is 0")
	case r.Namespaces:
		fmt.Fprintln(w, "ntp: chronyd is not installed")
	default:
		fmt.Fprintln(w, "ntp: chronyd needs a network namespace for each node")
	}
	names, held, _ := answers.HeldMethods(r.Answer)
	if len(names) == 0 {
		return
	}
	fmt.Fprintln(w, "\nwhat each method said of all pairs, checked against the truth:")
	for _, name := range names {
		fmt.Fprintf(w, "  %-14s %s\n", name, held[name])
	}
}

// demoLine is what "cprof demo --json" prints. Scripts read it: only append fields.
type demoLine struct {
	DurationsChecked    int     `json:"durations_checked"`
	Outside             int     `json:"outside"`
	PaperHalfWidthUSMed float64 `json:"paper_half_width_us_median"`
	Tuples              int     `json:"tuples"`
	Lost                int     `json:"lost"`
	SmallestRoundTrip   float64 `json:"smallest_round_trip_us"` // smallest round trip over ZeroMQ
	HalfWidthUSMed      float64 `json:"half_width_us_median"`
	WanderPPM           float64 `json:"w_ppm"`
	Verdict             string  `json:"verdict"`
	KernelStamps        int     `json:"kernel_stamps"`
	Stamps              int     `json:"stamps"`
	BetweenNodes        int     `json:"between_nodes"` // number of durations between nodes
	Nodes               int     `json:"nodes"`
	Namespaces          bool    `json:"namespaces"`

	// The run's answer and its page compare durations with the truth. For this comparison they use
	// only the logs. These are its results.
	PageDurations int     `json:"page_durations"`
	BoundUsedMost float64 `json:"bound_used_most"` // as a share, from 0 to 1

	Methods map[string]demoMethod `json:"methods"` // by name

	Placed *placedLine `json:"placed,omitempty"` // with --place
}

// demoMethod has a method's values for all pairs of nodes, compared with the truth.
type demoMethod struct {
	BoundUSMed float64 `json:"bound_us_median"` // median over pairs, of each pair's median
	Held       uint64  `json:"held"`            // values that were compared with the truth
	Outside    uint64  `json:"outside"`
	UsedMost   float64 `json:"used_most"` // share of the bound, from 0 to 1
}

func demoMethods(a *analysis.Answer) map[string]demoMethod {
	bounds := map[string][]int64{}
	sums := map[string]*analysis.Held{}
	for _, c := range a.Comparisons {
		for _, m := range c.Methods {
			if m.Absent != "" {
				continue
			}
			bounds[m.Name] = append(bounds[m.Name], m.Median_cycles)
			if sums[m.Name] == nil {
				sums[m.Name] = new(analysis.Held)
			}
			if m.Held != nil {
				sums[m.Name].Merge(m.Held)
			}
		}
	}
	out := map[string]demoMethod{}
	for name, medians := range bounds {
		slices.Sort(medians)
		h, median := sums[name], medians[(len(medians)-1)/2]
		out[name] = demoMethod{
			a.Reference.Microseconds_up(median), h.Count, h.Outside, h.MostUsed,
		}
	}
	return out
}

func printDemoJSON(w io.Writer, r *Result, moved *Placed) error {
	us := func(cycles float64) float64 { return Microseconds(r, cycles) }
	checked, between, outside := r.Checked()
	verdict, _ := demoVerdict(r)
	return json.NewEncoder(w).Encode(demoLine{
		DurationsChecked:    checked,
		Outside:             outside,
		PaperHalfWidthUSMed: us(r.Paper.HalfWidth_cycles(r.Wander)),
		Tuples:              r.Tuples,
		Lost:                r.Lost,
		SmallestRoundTrip:   us(float64(r.Paper.RoundTrip)),
		HalfWidthUSMed:      us(r.HalfWidth_cycles()),
		WanderPPM:           r.Wander.PPM(),
		Verdict:             verdict,
		KernelStamps:        r.Kernel,
		Stamps:              r.Stamps,
		BetweenNodes:        between,
		Nodes:               len(r.Nodes),
		Namespaces:          r.Namespaces,
		PageDurations:       int(r.Answer.Held.Count),
		BoundUsedMost:       r.Answer.Held.MostUsed,
		Methods:             demoMethods(r.Answer),
		Placed:              moved.line(),
	})
}
