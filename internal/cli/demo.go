package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/internal/demo"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

func newDemo() *cobra.Command {
	o := demo.Options{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the whole way on this machine: two virtual nodes, a job across them, latencies with their bound",
		Long: `Run the whole way on this machine, with nothing to configure.

Two processes are two virtual nodes: their counters began at different times, run at different rates, and these wander; their
clocks are off and slewed. A job sends tuples from node A to node B and back, and logs where each one is; a drainer on each node
moves the records into log files. Trains of packets before, during and after the job relate the two counters, and give each
latency between the nodes a bound.

Because the nodes are virtual, the truth is known: the last column counts the durations that contain it. All must.

Exit code 1: a duration did not contain the truth. Exit code 3: tuples were lost, or the relation is suspect.`,
		Example: "  cprof demo\n  cprof demo --tuples 20000 --rate 10000\n  cprof demo --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDemo(cmd.Context(), o, asJSON, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().IntVar(&o.Tuples, "tuples", 10_000, "tuples to send")
	cmd.Flags().IntVar(&o.PerSecond, "rate", 4_000, "tuples to send in a second")
	cmd.Flags().IntVar(&o.Exchanges, "exchanges", 100, "exchanges before the job, and again after it: the paper's method has no others")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// newDemoNode is the process of a virtual node, which "cprof demo" starts.
func newDemoNode() *cobra.Command {
	return &cobra.Command{
		Use:     "demo-node",
		Short:   "A virtual node of cprof demo, which starts it",
		Hidden:  true,
		Example: "  cprof demo",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.Node(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// maxDemoTuples is what the demonstration joins in memory.
const maxDemoTuples = 1_000_000

func runDemo(ctx context.Context, o demo.Options, asJSON bool, stdout, stderr io.Writer) error {
	switch {
	case o.Tuples < 1 || o.Tuples > maxDemoTuples:
		return usagef("--tuples %d: give 1 to %d", o.Tuples, maxDemoTuples)
	case o.PerSecond < 1 || o.PerSecond > 1_000_000:
		return usagef("--rate %d: give 1 to 1000000", o.PerSecond)
	case o.Exchanges < 1 || o.Exchanges > 100_000:
		return usagef("--exchanges %d: give 1 to 100000", o.Exchanges)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	o.NodeCommand = []string{self, "demo-node"}
	line := newProgress(stderr)
	o.Progress = func(step string) { line.show("%s …", step) }
	result, err := demo.Run(ctx, o)
	line.done()
	if err != nil {
		return err
	}
	if asJSON {
		err = printDemoJSON(stdout, result)
	} else {
		err = printDemo(stdout, result)
	}
	if err != nil {
		return err
	}
	if checked, outside := result.Checked(); outside > 0 {
		return fmt.Errorf("%d of %d durations did not contain the truth: this is a defect", outside, checked)
	}
	if result.Relation.Verdict == tscratio.Suspect {
		return fmt.Errorf("the relation is suspect, its bounds are estimates: %w", errPartial)
	}
	if result.Lost > 0 {
		return fmt.Errorf("%d of %d tuples were lost: %w", result.Lost, result.Tuples, errPartial)
	}
	return nil
}

func printDemo(w io.Writer, r demo.Result) error {
	us := func(cycles float64) float64 { return cycles / r.CyclesPerSecond * 1e6 }
	for _, n := range r.Nodes {
		fmt.Fprintf(w, "node %s   counter began at %20d, runs %+.2f ppm, wanders (%s)\n", n.Name, n.Start, n.Rate, n.Shape)
	}
	w_ppm, half, paper := r.Relation.Wander.PPM(), r.HalfWidth_cycles(), r.Paper.HalfWidth_cycles(r.Relation.Wander)
	fmt.Fprintf(w, "\nrelation of the two counters, assuming that their relative rate stays within %g ppm over ±%v\n", w_ppm, r.Relation.Declared.Window)
	fmt.Fprintf(w, "  verdict     %v: the least wander that the exchanges allow is %.3g ppm\n", r.Relation.Verdict, r.Relation.Least.PPM())
	fmt.Fprintf(w, "  exchanges   %d in %d trains, %d unanswered; %d of %d stamps by the kernel\n", r.Exchanges, r.Trains, r.Unanswered, r.Kernel, r.Stamps)
	fmt.Fprintf(w, "  bound       ± %.0f cycles of A (± %.2f µs), median between the nodes\n", half, us(half))
	fmt.Fprintf(w, "  the paper's ± %.0f cycles of A (± %.2f µs), %.1f times as wide: half of the smallest of %d round trips, and the wander in between\n",
		paper, us(paper), paper/half, r.Paper.Exchanges)
	fmt.Fprintf(w, "\nlatencies in cycles of A, the reference node (µs for display, at %.6f GHz)\n\n", r.CyclesPerSecond/1e9)
	fmt.Fprintf(w, "%-21s %7s %4s  %24s  %18s  %12s  %s\n", "stretch", "tuples", "", "cycles", "µs", "truth, cycles", "truth inside")
	for _, hop := range r.Hops {
		for i, p := range []float64{50, 99} {
			span, truth := hop.Percentile(p), hop.TruePercentile(p)
			mid, half := float64(span.Lo)/2+float64(span.Hi)/2, float64(span.Hi-span.Lo)/2
			name, count, inside := hop.Name, fmt.Sprint(len(hop.Durations)), fmt.Sprintf("%d of %d", len(hop.Durations)-hop.Outside, len(hop.Durations))
			if i > 0 {
				name, count, inside = "", "", ""
			}
			fmt.Fprintf(w, "%-21s %7s p%-3.0f  %13.0f ± %-8.0f  %9.2f ± %-6.3f  %13d  %s\n", name, count, p, mid, half, us(mid), us(half), truth, inside)
		}
	}
	checked, outside := r.Checked()
	_, err := fmt.Fprintf(w, "\n%d durations held against the truth, %d outside of their bound; %d tuples, %d lost\n", checked, outside, r.Tuples, r.Lost)
	return err
}

// demoLine is what "cprof demo --json" prints. Scripts read it: append only.
type demoLine struct {
	DurationsChecked      int     `json:"durations_checked"`
	Outside               int     `json:"outside"`
	PaperHalfWidthUSMed   float64 `json:"paper_half_width_us_median"`
	Tuples                int     `json:"tuples"`
	Lost                  int     `json:"lost"`
	SmallestRoundTripA_us float64 `json:"smallest_round_trip_us"`
	HalfWidthUSMed        float64 `json:"half_width_us_median"`
	WanderPPM             float64 `json:"w_ppm"`
	Verdict               string  `json:"verdict"`
	KernelStamps          int     `json:"kernel_stamps"`
	Stamps                int     `json:"stamps"`
}

func printDemoJSON(w io.Writer, r demo.Result) error {
	us := func(cycles float64) float64 { return cycles / r.CyclesPerSecond * 1e6 }
	checked, outside := r.Checked()
	return json.NewEncoder(w).Encode(demoLine{
		DurationsChecked: checked, Outside: outside, PaperHalfWidthUSMed: us(r.Paper.HalfWidth_cycles(r.Relation.Wander)),
		Tuples: r.Tuples, Lost: r.Lost, SmallestRoundTripA_us: us(float64(r.Paper.RoundTrip)), HalfWidthUSMed: us(r.HalfWidth_cycles()),
		WanderPPM: r.Relation.Wander.PPM(), Verdict: r.Relation.Verdict.String(), KernelStamps: r.Kernel, Stamps: r.Stamps,
	})
}
