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

// Main runs "cprof demo" with args, the command line without the program's name, and returns the exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{Use: "cprof", Short: "The demonstration", Version: daemon.Version("cprof")}
	root.AddCommand(newDemo(), NewProcess())
	return command.Run(ctx, root, args, stdout, stderr)
}

func newDemo() *cobra.Command {
	var o Options
	var asJSON bool
	var load_mbit int
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the whole product on this machine: virtual nodes, a streaming job across them, latencies with their bound",
		Long: `Run the whole product on this machine, with nothing to configure.

Four virtual nodes have counters that began at different times, run at different rates, and wander; their clocks are off and slewed.
Started by root each is in a network namespace of its own, else they are processes on the loopback interface. A coordinator and an
agent on each node run an experiment as they do on a fleet: anchors before, then the advertising benchmark's job across the nodes with
every actor instrumented, another load on the network and trains of packets beside it, anchors after, and all logs in one run directory.
That is analysed as any run.

Because the nodes are virtual, the truth is known: the last column says whether every duration contains it. All must.

It takes about a minute and leaves nothing behind. With --keep DIR the run is kept, with its page DIR/report.html; "cprof analyze DIR" says
more about it.

Exit code 1: a duration did not contain the truth. Exit code 3: tuples were lost, or a relation is suspect.`,
		Example: "  cprof demo\n  cprof demo --keep tuesday\n  cprof demo --tuples 20000 --rate 10000\n  cprof demo --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.LoadBytes = load_mbit * 1e6 / 8
			return runDemo(cmd.Context(), o, load_mbit, asJSON, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().IntVar(&o.Tuples, "tuples", 90_000, "tuples to send")
	cmd.Flags().IntVar(&o.PerSecond, "rate", 4_000, "tuples to send in a second")
	cmd.Flags().IntVar(&o.Exchanges, "exchanges", 100, "exchanges over ZeroMQ each way before the job, and again after it: the paper's method has no others")
	cmd.Flags().IntVar(&load_mbit, "load", 100, "megabits that one node sends another in a second beside the job; 0: none")
	cmd.Flags().BoolVar(&o.Loopback, "loopback", false, "all nodes on the loopback interface, as without root")
	cmd.Flags().StringVar(&o.Keep, "keep", "", "`directory` to make and to keep the run in, with report.html")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// UntilClean ends with ctx and at a signal. From then on it passes further signals over until release is called: what was begun is being taken
// away, in some seconds at the most, and a second signal would leave it.
func UntilClean(ctx context.Context) (_ context.Context, release func()) {
	return signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
}

// ProcessCommand starts one of the processes of "cprof demo".
func ProcessCommand(self string) []string { return []string{self, "demo-process"} }

// NewProcess is one of the processes that "cprof demo" starts.
func NewProcess() *cobra.Command {
	return &cobra.Command{
		Use:     "demo-process",
		Short:   "A process of cprof demo, which starts it",
		Hidden:  true,
		Example: "  cprof demo",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return Process(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// maxDemoTuples is what the demonstration holds against the truth in memory.
const maxDemoTuples = 1_000_000

// longestDemo is for how long the nodes' clocks are made, some of it for what comes before the job and after it.
const longestDemo = 5 * time.Minute

func runDemo(ctx context.Context, o Options, load_mbit int, asJSON bool, stdout, stderr io.Writer) error {
	switch {
	case o.Tuples < 1 || o.Tuples > maxDemoTuples:
		return command.Usagef("--tuples %d: give 1 to %d", o.Tuples, maxDemoTuples)
	case o.PerSecond < 1 || o.PerSecond > 1_000_000:
		return command.Usagef("--rate %d: give 1 to 1000000", o.PerSecond)
	case time.Duration(o.Tuples)*time.Second/time.Duration(o.PerSecond) > longestDemo:
		return command.Usagef("--tuples %d at --rate %d: they take longer than %v", o.Tuples, o.PerSecond, longestDemo)
	case o.Exchanges < 1 || o.Exchanges > 10_000:
		return command.Usagef("--exchanges %d: give 1 to 10000", o.Exchanges)
	case load_mbit < 0 || load_mbit > 100_000:
		return command.Usagef("--load %d: give 0 to 100000", load_mbit)
	}
	if o.Keep != "" {
		if _, err := os.Lstat(o.Keep); err == nil {
			return command.Usagef("--keep %q: something is there: name a directory that is to be made", o.Keep)
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
	result, err := Run(ctx, o)
	line.Done()
	if err != nil {
		return err
	}
	if asJSON {
		err = printDemoJSON(stdout, result)
	} else {
		err = printDemo(stdout, result, o)
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
	return Failure(result, checked, outside)
}

// Failure says what a demonstration did not show, if so.
func Failure(r *Result, checked, outside int) error {
	switch {
	case outside > 0:
		return fmt.Errorf("%d of %d durations did not contain the truth: this is a defect", outside, checked)
	case !r.Consistent():
		return fmt.Errorf("not every relation is consistent, bounds are estimates: %w", command.ErrPartial)
	case r.Lost > 0:
		return fmt.Errorf("%d tuples or events of %d tuples were lost: %w", r.Lost, r.Tuples, command.ErrPartial)
	}
	return nil
}

// What the demonstration must show at its own size.
const (
	demoDurations    = 1_000_000
	demoHalfWidth_us = 0.8
	demoNarrower     = 10
)

// Microseconds is a half-width of cycles of A in µs, rounded up.
func Microseconds(r *Result, cycles float64) float64 {
	return r.Answer.Reference.Microseconds_up(int64(math.Ceil(cycles)))
}

// demoBars hold a demonstration against what it must show. How narrow bounds are is a bar at full size alone, as it wants a machine with
// nothing else to do.
func demoBars(r *Result, size proof.Size) []proof.Bar {
	checked, between, outside := r.Checked()
	suspect := 0
	if !r.Consistent() {
		suspect = 1
	}
	half := r.HalfWidth_cycles()
	width := proof.Bar{Name: "median half-width between nodes", Figure: Microseconds(r, half), Limit: demoHalfWidth_us, Unit: "µs", Timing: true}
	narrower := proof.Bar{Name: "the paper's bound over ZeroMQ", Figure: r.Paper.HalfWidth_cycles(r.Wander) / half, Limit: demoNarrower, AtLeast: true, Unit: "× as wide", Timing: true}
	if !r.Namespaces {
		width.Absent = fmt.Sprintf("no network namespaces: %v", r.WhyLoopback)
		narrower.Absent = width.Absent
	}
	bars := []proof.Bar{
		{Name: "durations held against the truth", Figure: float64(checked), Limit: demoDurations, AtLeast: true, Unit: "durations"},
		{Name: "of them between nodes", Figure: 100 * float64(between) / float64(max(checked, 1)), Limit: 50, AtLeast: true, Unit: "%"},
		{Name: "outside of their bound", Figure: float64(outside), Unit: "durations"},
		{Name: "demonstrations with a relation that is not consistent", Figure: float64(suspect), Unit: "of one"},
		{Name: "tuples and events lost", Figure: float64(r.Lost), Unit: "events"},
		narrower,
	}
	if size == proof.Full {
		bars = append(bars, width)
	}
	return bars
}

// demoVerdict is that of the relations, and the largest of the smallest wanders that their exchanges allow.
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

func printDemo(w io.Writer, r *Result, o Options) error {
	reference := &r.Answer.Reference
	bound := func(cycles float64) string { return reference.Bound(int64(math.Ceil(cycles))) }
	for _, n := range r.Nodes {
		fmt.Fprintf(w, "node %s   counter began at %20d, runs %+.2f ppm, wanders (%s)\n", n.Name, n.Start, n.Rate, n.Shape)
	}
	where := "in network namespaces"
	if !r.Namespaces {
		where = "on the loopback interface"
	}
	half, paper := r.HalfWidth_cycles(), r.Paper.HalfWidth_cycles(r.Wander)
	verdict, least_ppm := demoVerdict(r)
	fmt.Fprintf(w, "\n%d counters %s, assuming that their relative rates stay within %g ppm over ±%gs\n", len(r.Nodes), where, r.Wander.PPM(), r.Answer.Pairs[0].Window_s)
	if r.WhyLoopback != nil {
		fmt.Fprintf(w, "  not in network namespaces of their own: %v\n", r.WhyLoopback)
	}
	fmt.Fprintf(w, "  verdict     %s: the least wander that the exchanges allow is %.3g ppm\n", verdict, least_ppm)
	fmt.Fprintf(w, "  exchanges   %d in %d trains; %d of %d stamps by the kernel\n", r.Exchanges, r.Trains, r.Kernel, r.Stamps)
	fmt.Fprintf(w, "  bound       ± %.0f cycles of A (± %s), median of the durations between nodes\n", half, bound(half))
	fmt.Fprintf(w, "  the paper's ± %.0f cycles of A (± %s), %.1f times as wide: half of the smallest of %d round trips over ZeroMQ, and the wander in between\n",
		paper, bound(paper), paper/half, r.Paper.Exchanges/max(len(r.Paper.Anchors), 1))
	methods := []string{analysis.MinRTT, analysis.ReT, analysis.NTP}
	fmt.Fprintf(w, "\nlatencies by the cycles of node %s, and behind them the bounds that other methods would have claimed between nodes;\n%s\n\n",
		reference.Node, reference.SecondsMean())
	fmt.Fprintf(w, "%-35s %7s %7s  %22s  %22s", "from → to", "tuples", "crossed", "p50", "p99")
	for _, method := range methods {
		fmt.Fprintf(w, " %9s", "± "+method)
	}
	fmt.Fprintf(w, "  %s\n", "truth")
	row := func(name string, h *Hop) {
		text := func(percent float64) string {
			p, _ := h.Percentiles.At(percent)
			return reference.Seconds(p)
		}
		fmt.Fprintf(w, "%-35s %7d %7d  %22s  %22s", name, len(h.Durations), h.Crosses, text(50), text(99))
		for _, method := range methods {
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
	for _, h := range r.Hops {
		switch {
		case !h.Since:
			row(h.From+" → "+h.To, h)
		case h.To == LastPoint:
			row("all the way, to "+h.To, h)
		}
	}
	answers.PrintPaths(w, r.Answer)
	fmt.Fprintln(w, "  windows wait on purpose, and all end at once; where source/intended → source/start is slowest, this machine is too slow for the load")
	fmt.Fprintln(w, "\nminrtt is the paper's method on our own exchanges, with the wander since its anchors; ret the way of a tuple by its acknowledgement's return trip")
	switch {
	case r.WhyNoNTP != nil:
		fmt.Fprintf(w, "ntp: %v\n", r.WhyNoNTP)
	case r.NTP:
		fmt.Fprintln(w, "ntp is what chronyd claims, from physical stamps, of this machine's one REALTIME, which all nodes share: in truth they do not differ there")
	case r.Namespaces:
		fmt.Fprintln(w, "ntp: chronyd is not installed")
	default:
		fmt.Fprintln(w, "ntp: chronyd needs a namespace for each node")
	}
	if names, held, _ := answers.HeldMethods(r.Answer); len(names) > 0 {
		fmt.Fprintln(w, "\nwhat each said of all pairs, held against the truth as well:")
		for _, name := range names {
			fmt.Fprintf(w, "  %-14s %s\n", name, held[name])
		}
	}
	checked, between, outside := r.Checked()
	_, err := fmt.Fprintf(w, "\n%d durations held against the truth, %d of them between nodes: %d outside of their bound; %d tuples, %d lost\n",
		checked, between, outside, r.Tuples, r.Lost)
	if o.Keep != "" && err == nil {
		_, err = fmt.Fprintf(w, "the run is in %s: open %s/report.html, which holds %d against it by the logs alone, between neighbouring points and through windows\n", o.Keep, o.Keep, r.Answer.Held.Count)
	}
	return err
}

// demoLine is what "cprof demo --json" prints. Scripts read it: append only.
type demoLine struct {
	DurationsChecked    int     `json:"durations_checked"`
	Outside             int     `json:"outside"`
	PaperHalfWidthUSMed float64 `json:"paper_half_width_us_median"`
	Tuples              int     `json:"tuples"`
	Lost                int     `json:"lost"`
	SmallestRoundTrip   float64 `json:"smallest_round_trip_us"` // over ZeroMQ
	HalfWidthUSMed      float64 `json:"half_width_us_median"`
	WanderPPM           float64 `json:"w_ppm"`
	Verdict             string  `json:"verdict"`
	KernelStamps        int     `json:"kernel_stamps"`
	Stamps              int     `json:"stamps"`
	BetweenNodes        int     `json:"between_nodes"` // of the durations
	Nodes               int     `json:"nodes"`
	Namespaces          bool    `json:"namespaces"`

	// What the run's own answer, and its page, hold against the truth by the logs alone; and how the methods went, by their names.
	PageDurations int                   `json:"page_durations"`
	BoundUsedMost float64               `json:"bound_used_most"` // of 1
	Methods       map[string]demoMethod `json:"methods"`
}

// demoMethod is how what a method said of all pairs of nodes went.
type demoMethod struct {
	BoundUSMed float64 `json:"bound_us_median"` // of the pairs' medians
	Held       uint64  `json:"held"`            // against the truth
	Outside    uint64  `json:"outside"`
	UsedMost   float64 `json:"used_most"` // of the bound, of 1
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
		h := sums[name]
		out[name] = demoMethod{a.Reference.Microseconds_up(medians[(len(medians)-1)/2]), h.Count, h.Outside, h.MostUsed}
	}
	return out
}

func printDemoJSON(w io.Writer, r *Result) error {
	us := func(cycles float64) float64 { return Microseconds(r, cycles) }
	checked, between, outside := r.Checked()
	verdict, _ := demoVerdict(r)
	return json.NewEncoder(w).Encode(demoLine{
		DurationsChecked: checked, Outside: outside, PaperHalfWidthUSMed: us(r.Paper.HalfWidth_cycles(r.Wander)),
		Tuples: r.Tuples, Lost: r.Lost, SmallestRoundTrip: us(float64(r.Paper.RoundTrip)), HalfWidthUSMed: us(r.HalfWidth_cycles()),
		WanderPPM: r.Wander.PPM(), Verdict: verdict, KernelStamps: r.Kernel, Stamps: r.Stamps,
		BetweenNodes: between, Nodes: len(r.Nodes), Namespaces: r.Namespaces,
		PageDurations: int(r.Answer.Held.Count), BoundUsedMost: r.Answer.Held.MostUsed, Methods: demoMethods(r.Answer),
	})
}
