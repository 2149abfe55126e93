package fleet

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

func newNodes() *cobra.Command {
	var server serverFlags
	var asJSON, table, sweep bool
	var svg string
	cmd := &cobra.Command{
		Use:   "nodes [FROM INTO]",
		Short: "Show the nodes of a fleet, and how exactly their counters are related",
		Long: `Show the nodes of a fleet, and how exactly their counters are related.

A cell of the matrix shows how exactly a reading of the row's counter can be translated into the
column's counter: half of the interval, in µs, in the middle of the newest train. A cell may have
these marks:

  !  suspect: the data contradict the declared wander, and the bound is an estimate
  ?  there is no bound, although the pair is measured: the last lines say why
  -  the pair is not measured: the fleet has more nodes than the server's key all_pairs, or a node
     is gone or cannot probe
  * other nodes narrowed the bound, if the server's key third_nodes allows this
  ~  old: a node is gone, or has another epoch

--pairs lists everything that is known about each pair.

In a fleet of more than 30 nodes, a summary replaces the matrix: what is unhealthy, the distribution
of the bounds, and the pairs with the largest. --svg then draws the distribution. The server then
uses what it knows of a pair for up to 30 s, so newer trains may have made the bound narrower.

With the names of two nodes, nodes shows how exactly readings of the first can be translated into
cycles of the second at this moment, and the measured pairs on which that rests. --svg then draws
the paths over these pairs.

Exit code 3: something is unhealthy; the last lines say what.`,
		Example: `  cprof nodes
  cprof nodes alpha beta
  cprof nodes --pairs
  cprof nodes --sweep
  cprof nodes --json | jq '.pairs[] | select(.bound_ns > 10000)'
  cprof nodes --svg matrix.svg
  cprof nodes alpha beta --svg path.svg`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return command.Usagef("one node %q: name two nodes, or none", args[0])
			}
			link, err := server.dial(cmd)
			if err != nil {
				return err
			}
			defer link.Close()
			if sweep {
				if err := waitForSweep(cmd, link); err != nil {
					return err
				}
			}
			if len(args) == 2 {
				return showPair(cmd, link, args[0], args[1], asJSON, svg)
			}
			var m coordinator.Matrix
			var request coordinator.NodesRequest
			if !asJSON && !table {
				request.ListMost = manyNodes
			}
			if err := askNodes(cmd, link, request, &m); err != nil {
				return err
			}
			out, many := cmd.OutOrStdout(), m.Summarize().Nodes > manyNodes
			if svg != "" {
				if err := drawNodes(svg, &m); err != nil {
					return err
				}
			}
			switch {
			case asJSON:
				if err := printJSON(cmd, m); err != nil {
					return err
				}
			case table:
				writePairs(out, &m)
			case many:
				writeMany(out, &m)
			default:
				writeNodes(out, &m)
				writeMatrix(out, &m)
			}
			if !asJSON && (table || !many) {
				writeHealth(out, &m, 20)
			}
			if !m.Healthy() {
				return fmt.Errorf("the fleet is not healthy: %w", command.ErrPartial)
			}
			return nil
		},
	}
	server.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&table, "pairs", false, "list every pair instead of the matrix")
	cmd.Flags().BoolVar(&sweep, "sweep", false, "measure all pairs first, and wait for the result")
	cmd.Flags().StringVar(&svg, "svg", "", "write to this file the matrix as a heat map, the\n"+
		"distribution of bounds of a large fleet, or the paths of a pair")
	return cmd
}

// drawNodes writes an image: of the matrix, or in a large fleet of the distribution of bounds.
func drawNodes(path string, m *coordinator.Matrix) error {
	if m.Summarize().Nodes > manyNodes {
		return command.Draw(path, distributionFigure(m).WriteSVG)
	}
	if err := command.WriteWhole(path, []byte(heatMap(m))); err != nil {
		return fmt.Errorf("write heat map: %w", err)
	}
	return nil
}

func ago(ns int64) string {
	d := time.Duration(ns)
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return d.Round(time.Minute).String()
}

func writeNodes(out io.Writer, m *coordinator.Matrix) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "node\tstate\theard\tMHz\tquantum\tcore slack\tprobes\ttable\tsoftware")
	for _, n := range m.Nodes {
		state := "here"
		if !n.Alive {
			state = "gone"
		}
		if n.Virtual {
			state += ", virtual"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.3f\t%d\t%d\t%s\t%d\t%s\n", n.Name, state, ago(n.Heard_ns),
			float64(n.Nominal_hz)/1e6, n.Quantum_cycles, n.CoreSlack_cycles,
			n.Address, n.TableGeneration, command.Line(n.Software))
	}
	w.Flush()
	if len(m.Nodes) == 0 {
		fmt.Fprintln(out, "no node has registered: start tsc-client, or cp-agent, on each")
	}
}

// notMeasured is the text for a pair that the server deliberately does not measure.
const notMeasured = "-"

// cell returns the text for a pair in a table.
func cell(p coordinator.PairStatus) string {
	switch {
	case p.NotMeasured():
		return notMeasured
	case p.Hi_cycles == 0:
		return "?"
	}
	mark := ""
	if p.Verdict == tscratio.Suspect.String() {
		mark += "!"
	}
	if p.Path() != "direct" {
		mark += "*"
	}
	if p.Old {
		mark += "~"
	}
	return boundText(p.Bound_ns) + mark
}

func boundText(ns float64) string {
	switch us := ns / 1000; {
	case us < 10:
		return fmt.Sprintf("%.2f", command.RoundUp(us, 2))
	case us < 100:
		return fmt.Sprintf("%.1f", command.RoundUp(us, 1))
	default:
		return fmt.Sprintf("%.0f", command.RoundUp(us, 0))
	}
}

func writeMatrix(out io.Writer, m *coordinator.Matrix) {
	if len(m.Nodes) < 2 {
		return
	}
	cells := map[[2]string]string{}
	for _, p := range m.Pairs {
		cells[[2]string{p.From, p.Into}] = cell(p)
	}
	fmt.Fprintln(out, "\nbound of the row's readings in the column's cycles, ± µs at that node's "+
		"nominal rate:")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, n := range m.Nodes {
		fmt.Fprintf(w, "\t%s", n.Name)
	}
	fmt.Fprintln(w, "\t")
	for _, from := range m.Nodes {
		fmt.Fprint(w, from.Name)
		for _, into := range m.Nodes {
			text, ok := cells[[2]string{from.Name, into.Name}]
			switch {
			case from.Name == into.Name:
				text = "·"
			case !ok:
				text = notMeasured
			}
			fmt.Fprintf(w, "\t%s", text)
		}
		fmt.Fprintln(w, "\t")
	}
	w.Flush()
}

func writePairs(out io.Writer, m *coordinator.Matrix) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "from\tinto\tbound, ± µs\tdirect\tw, ppb\tw_min\tverdict\trate, "+
		"ppb\tage\tstamps\tpath\ttrains\tlost\tunhealthy")
	for _, p := range m.Pairs {
		rate, bound, direct := "?", "?", "?"
		if p.Hi_cycles != 0 {
			rate = fmt.Sprintf("%+.0f … %+.0f", p.RateLo_ppb, p.RateHi_ppb)
			bound, direct = boundText(p.Bound_ns), boundText(p.Direct_ns)
		}
		verdict := p.Verdict
		if p.Old {
			verdict += ", old"
		}
		age := "?"
		if p.Trains > 0 {
			age = ago(p.Age_ns)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.0f\t%.0f\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n",
			p.From, p.Into, bound, direct, p.Wander_ppb, p.Least_ppb, verdict, rate,
			age, p.Stamps(), p.Path(), p.Trains, p.Lost, command.Line(p.Unhealthy))
	}
	w.Flush()
}

// writeHealth describes the sweep, the run and the faults of a fleet. The parameter most is the
// largest number of faults that it describes.
func writeHealth(out io.Writer, m *coordinator.Matrix, most int) {
	fmt.Fprintln(out)
	if s := m.Sweep; s != nil {
		how := "took"
		if s.Running {
			how = "is under way for"
		}
		fmt.Fprintf(out, "sweep %d (%s): %d of %d pairs complete, %s %s; %s\n",
			s.Number, s.Why, s.Complete, s.Pairs, how,
			time.Duration(s.Took_ns).Round(time.Millisecond), s.Quiet)
	}
	if r := m.Run; r != nil {
		fmt.Fprintf(out, "run %s: %s\n", r.Name, r.Phase)
	}
	if m.Healthy() {
		fmt.Fprintln(out, "healthy")
		return
	}
	fmt.Fprintln(out, "unhealthy:")
	for i, u := range m.Unhealthy {
		if i == most {
			fmt.Fprintf(out, "  and %d more: see --json\n", len(m.Unhealthy)-most)
			break
		}
		fmt.Fprintf(out, "  %s\n", command.Line(u))
	}
	if n := m.Summarize().Faults; n > len(m.Unhealthy) {
		fmt.Fprintf(out, "each of the %d faults: cprof nodes --json | jq '.faults[]'\n", n)
	}
}
