package answers

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/replay"
	"github.com/cloudprofiler/cloudprofiler/replay/page"
	"github.com/cloudprofiler/cloudprofiler/replay/question/wire"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// replayFlags are the flags of cprof replay.
type replayFlags struct {
	analyzeFlags
	find    string
	states  []string
	events  int
	orders  int
	epsilon time.Duration
	page    bool
	write   string
	output  string
	asJSON  bool

	onlyEdges bool
}

func newReplay() *cobra.Command {
	var flags replayFlags
	cmd := &cobra.Command{
		Use:   "replay RUN",
		Short: "Find the orders in which the events of a run could have happened",
		Long: `Find the orders in which the events of a run could have happened. Causality orders
events, and so do their times where the bounds prove an order. Two events that neither orders are a
free pair: they could have happened in either order. docs/replay.md explains it.

RUN is a run, as for cprof analyze, or a file: lines as the thesis on replay clocks prints them, or
a log in the default format of ShiViz.

The first --events events from --from on are replayed. --find looks for an order after which a
condition holds, and prints the shortest one. --page writes a page on which you replay the run step
by step.

Exit code 3: answered, and times are suspect, or messages were received before they were sent.`,
		Example: `  cprof replay runs/tuesday
  cprof replay runs/tuesday --page
  cprof replay runs/race --find 'held > 1' \
      --state 'held = 0 then event.point == "acquire" ? held + 1 : held'
  cprof replay runs/tuesday --epsilon 1ms
  cprof replay runs/tuesday --write shiviz -o tuesday.log
  cprof replay thesis.txt --orders 3`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return flags.run(cmd, args[0]) },
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&flags.find, "find", "",
		"look for an order after which this `condition` holds: an expression in CEL, over states "+
			"and event.node, .channel, .actor, .point, .handler, .id and .value")
	cmd.Flags().StringArrayVar(&flags.states, "state", nil,
		"a value that events change: 'NAME = VALUE then NEXT', or 'NAME by node = VALUE then NEXT'")
	cmd.Flags().IntVar(&flags.events, "events", 2000, "how many events to replay")
	cmd.Flags().IntVar(&flags.orders, "orders", 0,
		"how many orders to print: all orders, or a random sample")
	cmd.Flags().DurationVar(&flags.epsilon, "epsilon", 0,
		"for comparison: clocks may differ by this, instead of by what is proven")
	cmd.Flags().BoolVar(&flags.onlyEdges, "only-edges", false,
		"messages go only along the edges of --edge, whatever the data show")
	cmd.Flags().BoolVar(&flags.page, "page", false,
		"write a page to replay on, replay.html in the run's exports")
	cmd.Flags().StringVar(&flags.write, "write", "",
		"write the events for other programs: thesis or shiviz")
	cmd.Flags().StringVarP(&flags.output, "output", "o", "",
		"file for --page or --write; - is the standard output")
	cmd.Flags().BoolVar(&flags.asJSON, "json", false, "print the answer as one JSON object")
	command.CompleteFlag(cmd, "write", command.CompleteValues([]string{"thesis", "shiviz"}))
	return cmd
}

// check finds flags that contradict each other.
func (f *replayFlags) check() error {
	switch {
	case f.find == "" && len(f.states) > 0:
		return command.Usagef("--state %q: it is for --find: give both", f.states[0])
	case f.write != "" && f.write != "thesis" && f.write != "shiviz":
		return command.Usagef("--write %q: give thesis or shiviz", f.write)
	case f.page && f.write != "":
		return command.Usagef("--page and --write %s: choose one", f.write)
	case f.output != "" && !f.page && f.write == "":
		return command.Usagef("--output %q: it is for --page or --write", f.output)
	case f.events < 1 || f.events > replay.MaxEvents:
		return command.Usagef("--events %d: give 1 to %d", f.events, replay.MaxEvents)
	case f.page && f.events > page.MaxEvents:
		return command.Usagef("--events %d: a page shows at most %d", f.events, page.MaxEvents)
	case f.orders < 0:
		return command.Usagef("--orders %d: give 0 or more", f.orders)
	case f.epsilon < 0:
		return command.Usagef("--epsilon %v: give a time such as 1ms", f.epsilon)
	}
	return nil
}

// replayed is the answer of cprof replay.
type replayed struct {
	Run       string              `json:"run"`
	Reference *analysis.Reference `json:"reference,omitempty"` // absent: the times are not known
	Summary   *replay.Summary     `json:"summary,omitempty"`
	Assumed   []string            `json:"assumed,omitempty"` // why edges with exceptions are taken
	Unusable  []string            `json:"unusable,omitempty"`
	Events    int                 `json:"events"` // that were replayed
	More      bool                `json:"more"`   // the run has more
	Free      uint64              `json:"free,string"`
	// Orders is the number of orders. It is absent if the orders were not counted.
	Orders *big.Int `json:"orders,omitempty"`
	// Forced is the number of free pairs that replay clocks would show in one order only. Such
	// clocks have one epsilon for all nodes. The events of a free pair could have happened in both
	// orders.
	Forced    *uint64        `json:"forced,string,omitempty"`
	Condition string         `json:"condition,omitempty"`
	Found     *wire.Response `json:"found,omitempty"`

	history *replay.History
	orders  *replay.Orders
	counted *replay.Counted
}

func (f *replayFlags) run(cmd *cobra.Command, name string) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	ask := &wire.Request{Find: f.find, States: f.states}
	if f.find != "" {
		if _, err := answerOf(cmd.Context(), ask); err != nil { // this only checks the expressions
			return err
		}
	}
	r := &replayed{Run: name}
	var dir *runs.Directory
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
		err = r.readTrace(name)
		if err != nil {
			return err
		}
	} else {
		if dir, err = command.OpenRun(name); err != nil {
			return err
		}
		defer dir.Close()
		if err := f.read(cmd, dir, o, r); err != nil {
			return err
		}
	}
	r.Events, r.More = len(r.history.Events), r.history.More
	r.orders = r.history.Orders()
	r.Free = r.orders.Free()
	r.counted = r.orders.Count()
	r.Orders = r.counted.Orders
	if f.find != "" {
		if err := r.search(cmd.Context(), ask); err != nil {
			return err
		}
	}
	if f.page || f.write != "" {
		if f.find != "" {
			var verdict strings.Builder
			r.printVerdict(&verdict)
			fmt.Fprint(cmd.ErrOrStderr(), verdict.String())
		}
		err = f.file(cmd, dir, r)
	} else if f.asJSON {
		err = r.printJSON(cmd.OutOrStdout())
	} else {
		err = r.print(cmd.OutOrStdout(), f.orders)
	}
	return errors.Join(err, r.doubt())
}

// read reads the events of a run. The analysis finds which points follow each other.
func (f *replayFlags) read(cmd *cobra.Command, dir *runs.Directory, o analysis.Options,
	r *replayed) error {
	part := replay.Part{Nodes: o.Filter.Nodes, Channels: o.Filter.Channels, IDs: o.Filter.IDs,
		First: f.events}
	chosen := o.Filter
	o.Filter, o.Slowest = analysis.Filter{}, -1
	var clock analysis.Clock
	o.Begin = func(b analysis.Basis) error {
		clock = b.Clock
		return nil
	}
	if err := checkChosen(dir, &chosen); err != nil {
		return err
	}
	o.OnlyEdges = f.onlyEdges
	answer, err := analyzeOpen(cmd.Context(), dir, o, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	for _, e := range answer.Causes.Near {
		o.Edges = append(o.Edges, [2]string{e.From, e.To})
		r.Assumed = append(r.Assumed, fmt.Sprintf("%d tuples passed %s before %s, and %d after "+
			"it: messages are taken to go from %s to %s; if that is wrong, say --edge or "+
			"--only-edges", e.Surely, e.From, e.To, e.Other, e.From, e.To))
	}
	if len(r.Assumed) > 0 { // once more, to count and name what contradicts these edges
		answer, err = analyzeOpen(cmd.Context(), dir, o, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
	}
	r.Reference = &answer.Reference
	hz := (answer.Reference.FrequencyLo_hz + answer.Reference.FrequencyHi_hz) / 2
	ro := replay.Options{Reference: answer.Reference.Node, Wander: o.Wander,
		ThirdNodes: o.ThirdNodes, Edges: answer.Follows(), Renames: answer.Causes.Renames,
		Made: answer.Made()}
	if f.epsilon > 0 {
		if hz == 0 {
			return fmt.Errorf("--epsilon %v: the frequency of %s is not known", f.epsilon,
				answer.Reference.Node)
		}
		ro.Epsilon_cycles = uint64(f.epsilon.Seconds() * hz)
	}
	part.From_cycles, part.To_cycles = chosen.From_cycles, chosen.To_cycles
	if chosen.To_utc_ns != 0 {
		part.From_cycles, part.To_cycles, err = clock.Cycles(chosen.From_utc_ns, chosen.To_utc_ns)
		if err != nil {
			return err
		}
	}
	if ro.Messages, err = capturedMessages(dir); err != nil {
		return err
	}
	run, err := replay.Open(dir, ro)
	if err != nil {
		return err
	}
	defer run.Close()
	r.Unusable = run.Unusable
	r.history, r.Summary, err = run.Gather(cmd.Context(), part)
	if err != nil {
		return err
	}
	// Some messages seem to be received before they were sent. The pass over the events notices
	// such a message only if it was sent soon after its receipt. The analysis notices all of them.
	if n, named := answer.Backwards(); f.epsilon == 0 && n > r.Summary.Broken {
		r.Summary.Broken, r.Summary.Named = n, named
	}
	if len(r.history.Events) == 0 {
		return fmt.Errorf("replay %q: no events are chosen: %w", r.Run, replay.ErrNothing)
	}
	if n := len(r.history.Events); n <= page.MaxEvents {
		_, forced := r.history.Forced(2*r.Summary.Bound_cycles, 1)
		r.Forced = &forced
	}
	return nil
}

// capturedMessages returns the captured messages of a run. It leaves out a message if one of its
// ends is not known. Everything that a node logged before its sending call began is before
// everything that the other node logged after its receiving call ended.
func capturedMessages(dir *runs.Directory) (all []replay.Message, err error) {
	_, err = messages.Of(dir, messages.Options{
		Each: func(m *messages.Timed) error {
			s, r := m.Send, m.Receive
			if s.Early && s.Log.Node != r.Log.Node {
				all = append(all, replay.Message{
					Sent: replay.Moment{Node: s.Log.Node, Epoch: s.Log.Epoch,
						Reading: s.Lo_cycles},
					Received: replay.Moment{Node: r.Log.Node, Epoch: r.Log.Epoch,
						Reading: r.Hi_cycles},
				})
			}
			return nil
		},
	})
	return all, err
}

// readTrace reads a trace that another program wrote.
func (r *replayed) readTrace(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	from := bufio.NewReaderSize(file, 1<<16)
	start, _ := from.Peek(1 << 16)
	if bytes.Contains(start, []byte("EventID")) {
		r.history, err = replay.ReadTrace(from)
	} else {
		r.history, err = replay.ReadShiViz(from)
	}
	if err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	return nil
}

// doubt returns an error if the replay rests on times that are not proven.
func (r *replayed) doubt() error {
	if notes := r.notes(); len(notes) > 0 {
		return fmt.Errorf("%s: %w", strings.Join(notes, "; "), command.ErrPartial)
	}
	return nil
}

// notes returns what makes the replay doubtful.
func (r *replayed) notes() (notes []string) {
	s := r.Summary
	if s == nil {
		return nil
	}
	if s.Broken > 0 {
		notes = append(notes, fmt.Sprintf("%s received before sent, whatever the bound, so an "+
			"assumption is broken: %s", command.Plural(int(s.Broken), "message"),
			strings.Join(s.Named,
				", ")))
	}
	notes = append(notes, r.Assumed...)
	if s.Suspect > 0 {
		notes = append(notes, fmt.Sprintf("the times of %s are estimates, because a relation is "+
			"suspect", command.Plural(int(s.Suspect), "event")))
	}
	if s.Unplaced > 0 {
		notes = append(notes, fmt.Sprintf("%s left out, because the nodes are not related at "+
			"that time", command.Plural(int(s.Unplaced), "event")))
	}
	return append(notes, r.Unusable...)
}

// file writes a page, or the events in the format of another program.
func (f *replayFlags) file(cmd *cobra.Command, dir *runs.Directory, r *replayed) error {
	var text bytes.Buffer
	var err error
	name := "replay.html"
	switch {
	case f.write == "thesis" && r.Summary == nil:
		return fmt.Errorf("--write thesis: %q has no times", r.Run)
	case f.write == "thesis":
		name = "replay.txt"
		err = r.history.WriteTrace(&text, 2*r.Summary.Bound_cycles, 1)
	case f.write == "shiviz":
		name = "shiviz.log"
		err = r.history.WriteShiViz(&text)
	default:
		o := page.Options{
			Title: filepath.Base(r.Run), Orders: r.ordersText(), Notes: r.notes(),
		}
		if r.Reference != nil {
			o.Hz = (r.Reference.FrequencyLo_hz + r.Reference.FrequencyHi_hz) / 2
		}
		if f := r.Found; f != nil {
			o.Question, o.States, o.Values = r.Condition, f.States, f.Values
			if f.Holds {
				o.Found = append([]int{}, f.Order...)
			}
		}
		err = page.Write(&text, page.Of(r.history, r.Summary, o))
	}
	if err != nil {
		return err
	}
	switch {
	case f.output == "-":
		_, err = text.WriteTo(cmd.OutOrStdout())
		return err
	case f.output != "":
		name, err = f.output, command.WriteWhole(f.output, text.Bytes())
	case dir == nil:
		return command.Usagef("--output: say where to write, because %q is not a run", r.Run)
	default:
		var e *runs.Export
		if e, err = dir.CreateExport(name); err == nil {
			_, err = text.WriteTo(e)
			if err = errors.Join(err, e.Finish()); err == nil {
				name = filepath.Join(dir.Path, "exports", name)
			}
		}
	}
	if err == nil {
		fmt.Fprintln(cmd.OutOrStdout(), name)
	}
	return err
}
