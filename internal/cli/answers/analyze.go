package answers

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/truth"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// analyzeFlags are the flags of every command that analyzes a run.
type analyzeFlags struct {
	given     func(flag string) bool
	reference string
	wander    command.WanderFlag
	third     tscratio.ThirdNodes
	memory    string
	scratch   string
	spill     string
	workers   int
	slowest   int
	edges     []string
	nodes     []string
	channels  []string
	ids       []string
	from, to  string
}

func (f *analyzeFlags) add(cmd *cobra.Command) {
	f.given = cmd.Flags().Changed
	cmd.Flags().StringVar(&f.reference, "reference", "",
		"answer in cycles of this node (default: the run's reference, else the node with the "+
			"smallest median bound to the others)")
	cmd.Flags().Var(&f.wander, "wander", "assume this `wander`, such as 0.2ppm or 50ppb (default: "+
		"what is stored with each relation)")
	cmd.Flags().TextVar(&f.third, "third-nodes", tscratio.ThirdAgreed,
		"`which` third nodes narrow the relation of two: agreed (as far as two of them agree), "+
			"any or none")
	cmd.Flags().StringVar(&f.memory, "memory", "512MiB",
		"memory for events; the rest goes to a scratch file")
	cmd.Flags().StringVar(&f.scratch, "scratch", "", "directory for the scratch file (default: "+
		"the system's temporary directory)")
	cmd.Flags().StringVar(&f.spill, "scratch-limit", "64GiB", "size limit of the scratch file")
	cmd.Flags().IntVar(&f.workers, "workers", 0, "cores to use (default: all)")
	cmd.Flags().StringSliceVar(&f.edges, "edge", nil,
		"add an edge to the graph found in the data, or decide one that the data leave open: "+
			"one point follows another, such as source/send:worker/recv")
	cmd.Flags().StringSliceVar(&f.nodes, "node", nil, "use only events on these nodes")
	cmd.Flags().StringSliceVar(&f.channels, "channel", nil,
		"use only these channels; patterns as in a handler table, such as parser*/start")
	cmd.Flags().StringSliceVar(&f.ids, "id", nil,
		"use only tuples with these ids, such as 17 or 100-200")
	cmd.Flags().StringVar(&f.from, "from", "", "use only tuples that began at this time or "+
		"later: cycles of the reference node, or UTC such as 2026-11-20T14:00:00Z")
	cmd.Flags().StringVar(&f.to, "to", "", "use only tuples that began at this time or earlier")

	cmd.ValidArgsFunction = command.CompleteRuns(1)
	command.CompleteFlag(cmd, "reference", command.CompleteFromRun(false, command.NodesOf))
	command.CompleteFlag(cmd, "edge", command.CompleteEdges)
	command.CompleteFlag(cmd, "node", command.CompleteFromRun(true, command.NodesOf))
	command.CompleteFlag(cmd, "channel", command.CompleteFromRun(true, (*runs.Directory).Channels))
}

// addSlowest adds --slowest, for commands that show single tuples.
func (f *analyzeFlags) addSlowest(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.slowest, "slowest", 3, "how many of the slowest tuples to show, each "+
		"with its whole path, and of those that were made of others")
}

// options turns flags into options. Its errors are usage errors.
func (f *analyzeFlags) options() (analysis.Options, error) {
	o := analysis.Options{Reference: f.reference, ThirdNodes: f.third, Workers: f.workers,
		Slowest: f.slowest, Scratch: f.scratch}
	if f.slowest == 0 {
		o.Slowest = -1
	}
	o.Wander = f.wander.Value
	for _, chosen := range []struct {
		flag string
		all  []string
	}{{"reference", []string{f.reference}}, {"edge", f.edges}, {"node", f.nodes},
		{"channel", f.channels}, {"id", f.ids}, {"from", []string{f.from}},
		{"to", []string{f.to}}} {
		// An empty value may be a script's variable that was never set. So it must not mean the
		// same as no flag: without the flag, the answer is about everything.
		if f.given(chosen.flag) && (len(chosen.all) == 0 || slices.Contains(chosen.all, "")) {
			return o, command.Usagef("--%s %q: it is empty: say what to use, or leave the flag out",
				chosen.flag, strings.Join(chosen.all, ","))
		}
	}
	for _, size := range []struct {
		flag, text string
		into       *int64
	}{{"memory", f.memory, &o.Memory_bytes}, {"scratch-limit", f.spill, &o.Scratch_bytes}} {
		n, err := channel.ParseCount(size.text)
		if err != nil || n < 1 || n > 1<<62 {
			return o, command.Usagef("--%s %q: give a size such as 512MiB", size.flag, size.text)
		}
		*size.into = int64(n)
	}
	for _, e := range f.edges {
		from, to, found := strings.Cut(e, ":")
		if !found {
			return o, command.Usagef("--edge %q: give two points, such as source/send:worker/recv",
				e)
		}
		o.Edges = append(o.Edges, [2]string{from, to})
	}
	o.Filter.Nodes, o.Filter.Channels = f.nodes, f.channels
	for _, text := range f.ids {
		from, to, isRange := strings.Cut(text, "-")
		if !isRange {
			to = from
		}
		lo, err1 := strconv.ParseUint(from, 10, 64)
		hi, err2 := strconv.ParseUint(to, 10, 64)
		if err := errors.Join(err1, err2); err != nil || lo > hi {
			return o, command.Usagef("--id %q: give a number, or a range such as 100-200", text)
		}
		o.Filter.IDs = append(o.Filter.IDs, [2]uint64{lo, hi})
	}
	if f.slowest < 0 {
		return o, command.Usagef("--slowest %d: give 0 or more", f.slowest)
	}
	if err := f.time(&o.Filter); err != nil {
		return o, err
	}
	if err := o.Validate(); err != nil {
		return o, command.UsageError{Err: err}
	}
	return o, nil
}

func (f *analyzeFlags) time(filter *analysis.Filter) error {
	if f.from == "" && f.to == "" {
		return nil
	}
	var utc, cycles int
	for _, end := range []struct {
		flag, text string
		cycles     *uint64
		utc        *int64
		open       bool
	}{{"from", f.from, &filter.From_cycles, &filter.From_utc_ns, true},
		{"to", f.to, &filter.To_cycles, &filter.To_utc_ns, false}} {
		if end.text == "" {
			continue
		}
		if n, err := strconv.ParseUint(end.text, 10, 64); err == nil {
			*end.cycles = n
			cycles++
			continue
		}
		t, err := time.Parse(time.RFC3339Nano, end.text)
		if err != nil {
			return command.Usagef("--%s %q: give cycles of the reference node, or UTC as "+
				"2026-11-20T14:00:00Z", end.flag, end.text)
		}
		*end.utc = t.UnixNano()
		utc++
	}
	if utc > 0 && cycles > 0 {
		return command.Usagef("--from %q, --to %q: give both in cycles or both in UTC",
			f.from, f.to)
	}
	if f.to == "" {
		if utc > 0 {
			filter.To_utc_ns = 1<<63 - 1
		} else {
			filter.To_cycles = 1<<64 - 1
		}
	}
	return nil
}

// analyzeRun opens a run and analyzes it, with a line of progress.
func analyzeRun(ctx context.Context, path string, o analysis.Options,
	stderr io.Writer) (*analysis.Answer, error) {
	dir, err := command.OpenRun(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return analyzeOpen(ctx, dir, o, stderr)
}

// readyOptions completes options for an open run, and checks which part of the run they choose. If
// the run has a record of the truth, as runs of virtual nodes do, the analysis compares everything
// with it.
func readyOptions(dir *runs.Directory, o *analysis.Options) error {
	counters, missing := truth.Of(dir)
	if counters != nil {
		o.Truth = counters.Truth
	}
	dir.Run.Missing = append(dir.Run.Missing, missing...)
	return checkChosen(dir, &o.Filter)
}

// analyzeOpen analyzes an open run.
func analyzeOpen(ctx context.Context, dir *runs.Directory, o analysis.Options,
	stderr io.Writer) (*analysis.Answer, error) {
	if err := readyOptions(dir, &o); err != nil {
		return nil, err
	}
	line := command.NewProgress(stderr)
	o.Progress = line.Share()
	answer, err := analysis.Run(ctx, dir, o)
	line.Done()
	if err != nil {
		return nil, err
	}
	return answer, needAnswer(answer, dir, &o.Filter)
}

// Analyze prints what "cprof analyze" prints about a run. If program is not empty, it prints only
// the captured messages from and to that program.
func Analyze(ctx context.Context, under *cobra.Command, run, program string) error {
	cmd := newAnalyze()
	cmd.SetOut(under.OutOrStdout())
	cmd.SetErr(under.ErrOrStderr())
	cmd.SetContext(ctx)
	if program != "" {
		if err := cmd.Flags().Set("program", program); err != nil {
			return err
		}
	}
	return cmd.RunE(cmd, []string{run})
}

func newAnalyze() *cobra.Command {
	var flags analyzeFlags
	var program string
	var asJSON, asCSV, verbose bool
	cmd := &cobra.Command{
		Use:   "analyze RUN",
		Short: "Say where tuples spent their time, and how sure that is",
		Long: `Say where tuples spent their time, and how sure that is. RUN is the directory of a
run, or the name of a run in $CLOUDPROFILER_RUNS, else in the directory runs. "cprof run fetch"
brings runs there from the server.

Events of all channels are joined by tuple id. Each duration is an interval in cycles of one node,
the reference, printed as value ± bound. The interval contains the truth if rates wander no more
than assumed. A duration is marked suspect, an estimate, if the data contradict a relation that it
rests on. What the run cannot decide is listed below the answer. For a run of virtual nodes (cprof
demo) the truth is known: every duration is compared with it.

A third node that exchanged packets with both nodes of a pair can narrow the relation of the pair.
By default, third nodes narrow it only as far as two of them agree. So if the counter or the stamps
of one node are wrong unnoticed, only answers about that node are wrong. With --third-nodes any,
every third node narrows the relation: bounds are narrowest, but true only if all nodes are right.
With --third-nodes none, no third node narrows it.

The answer begins with what is slow, how sure that is, and what to look at next. The table below it
has one unit. In each path, the span with the largest share of the end-to-end time comes first.

If messages were captured (cprof capture), a last table says which program sent to which, and how
long that took: from the beginning of the sending call to the moment when the receiving call had the
last byte. Flags that choose tuples do not apply to it.

Runs may be larger than memory: see --memory. Captured messages must fit into it, at about 340 bytes
each.

Exit code 1: nothing could be answered, for example because no tuple was chosen. Exit code 3: parts
are suspect, missing or undecided.`,
		Example: `  cprof analyze tuesday
  cprof analyze tuesday --reference node-b --slowest 10
  cprof analyze tuesday --channel 'parser*/*' --from 2026-11-20T14:00:00Z
  cprof analyze tuesday --json | jq '.end_to_end[].all.percentiles'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON && asCSV {
				return command.Usagef("--json and --csv: choose one")
			}
			o, err := flags.options()
			if err != nil {
				return err
			}
			answer, err := analyzeRun(cmd.Context(), args[0], o, cmd.ErrOrStderr())
			if err != nil && !errors.Is(err, errOnlyMessages) {
				return err
			}
			captured, err := messagesOf(args[0], answer, &o)
			if err == nil && program != "" {
				err = chooseProgram(captured, program)
			}
			if err != nil {
				return err
			}
			switch {
			case asJSON:
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", " ")
				err = encoder.Encode(withMessages{answer, captured})
			case asCSV:
				err = printAnswerCSV(cmd.OutOrStdout(), answer)
			default:
				err = printAnswer(cmd.OutOrStdout(), answer, shown{
					run: args[0], verbose: verbose, slowest: flags.given("slowest"),
					// A note may say that a declared edge changed nothing.
					notes: flags.given("edge"), captured: captured != nil,
				})
				if err == nil {
					err = printMessages(cmd.OutOrStdout(), captured, answer.Reference, verbose)
				}
			}
			if err != nil {
				return err
			}
			return partial(answer)
		},
	}
	flags.add(cmd)
	flags.addSlowest(cmd)
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print also cycles, what other methods "+
		"would have said, the slowest tuples, notes, and the truth where it is known")
	cmd.Flags().StringVar(&program, "program", "",
		"of captured messages, print only those from or to this program")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print everything as one JSON object")
	cmd.Flags().BoolVar(&asCSV, "csv", false, "print one line for each span, pair of nodes and "+
		"percentile, as comma-separated values")
	return cmd
}

// partial returns an error if some part of an answer is suspect, missing or undecided.
func partial(a *analysis.Answer) error {
	if !a.Partial {
		return nil
	}
	return fmt.Errorf("%s: %w", partsOf(a), command.ErrPartial)
}

// partsOf says how many parts of an answer are suspect, missing or undecided.
func partsOf(a *analysis.Answer) string {
	n := len(a.Missing)
	for _, f := range a.Findings {
		if f.Kind != analysis.FindNote {
			n++
		}
	}
	are := "are"
	if n == 1 {
		are = "is"
	}
	return fmt.Sprintf("%s of run %q %s suspect, missing or undecided",
		command.Plural(n, "part"), a.Run,
		are)
}

// partialOf is for commands that do not list the parts. It returns the error of partial, and adds
// which command lists the parts.
func partialOf(a *analysis.Answer, path string) error {
	err := partial(a)
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: \"cprof analyze %s\" with the same flags names them", err, path)
}

// printAnswerCSV prints percentiles, for spreadsheets. Later versions add columns only at the end.
func printAnswerCSV(w io.Writer, a *analysis.Answer) error {
	out := csv.NewWriter(w)
	out.Write([]string{"from", "to", "kind", "origin", "from_node", "to_node", "count", "percent",
		"lo_cycles", "hi_cycles", "bound_cycles", "suspect", "kept", "withheld"})
	for _, spans := range [][]analysis.Span{a.Spans, a.EndToEnd} {
		for _, l := range spans {
			row := func(from, to string, d *analysis.Durations) {
				for i, p := range d.Percentiles {
					out.Write([]string{
						l.From, l.To, l.Kind, l.Origin, from, to, fmt.Sprint(d.Count),
						fmt.Sprint(p.Percent), fmt.Sprint(p.Lo_cycles), fmt.Sprint(p.Hi_cycles),
						fmt.Sprint(d.Bounds[i].Bound_cycles), fmt.Sprint(d.Suspect),
						string(l.Completeness.Kept), fmt.Sprint(d.Withheld),
					})
				}
			}
			row("", "", &l.All)
			for i := range l.Pairs {
				row(l.Pairs[i].From, l.Pairs[i].To, &l.Pairs[i].Durations)
			}
		}
	}
	out.Flush()
	return out.Error()
}
