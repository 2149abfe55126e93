package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/examples/adstream/job"
	"github.com/cloudprofiler/cloudprofiler/internal/cli/fleet"
	placed "github.com/cloudprofiler/cloudprofiler/placement/job"
)

// Placed is what the demonstration found when it ran the job again, in the placement that
// "cprof place" proposed.
type Placed struct {
	Proposal string              // what "cprof place" printed
	Actors   map[string][]string // by operator: the nodes that it proposed, one for each instance
	After    *Result

	// Changes compare the percentiles of the tuples' end-to-end latency in both runs.
	Changes []analysis.Change
}

// RunPlaced runs the demonstration, asks "cprof place" where the job's operators should run, and
// runs the demonstration again in the proposed placement. To choose this placement, "cprof place"
// uses only figures of the first run: how long tuples travelled, and how long operators worked. If
// Options.Keep is set, the second run is kept beside the first (PlacedDirectory).
func RunPlaced(ctx context.Context, o Options) (before *Result, p *Placed, err error) {
	if before, err = Run(ctx, o); err != nil {
		return nil, nil, err
	}
	p = &Placed{}
	if p.Actors, p.Proposal, err = propose(before); err != nil {
		return nil, nil, fmt.Errorf("place the job: %w", err)
	}
	o.actors = p.Actors
	if o.Keep != "" {
		o.Keep = PlacedDirectory(o.Keep)
	}
	if p.After, err = Run(ctx, o); err != nil {
		return nil, nil, fmt.Errorf("run the job again: %w", err)
	}
	p.Changes, err = compare(before, p.After)
	return before, p, err
}

// propose asks "cprof place" where the operators of a run's job should run.
func propose(r *Result) (actors map[string][]string, proposal string, err error) {
	file, err := placed.Parse(r.jobFile, jobFileName, nil)
	if err != nil {
		return nil, "", err
	}
	var text strings.Builder
	at, err := fleet.Place(&text, file)
	if err != nil {
		return nil, "", err
	}
	actors = map[string][]string{}
	for v, operator := range file.Job.Operators {
		stage, _, _ := strings.Cut(operator.Name, "#")
		actors[stage] = append(actors[stage], file.Job.Nodes[at[v]].Name)
	}
	return actors, text.String(), nil
}

// PlacedDirectory returns where the run in the new placement is kept.
func PlacedDirectory(keep string) string { return filepath.Clean(keep) + "-placed" }

// compare compares the tuples' end-to-end latency in two runs.
func compare(before, after *Result) (whole []analysis.Change, err error) {
	all, err := analysis.Diff([]*analysis.Answer{before.whole}, []*analysis.Answer{after.whole})
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if c.From == job.Stages[0]+"/start" && c.To == LastPoint && c.Origin == "" {
			whole = append(whole, c)
		}
	}
	if len(whole) == 0 {
		return nil, errors.New("compare the two placements: no tuple passed the whole job")
	}
	return whole, nil
}

// jobFileName is the name of the job file in a run's directory.
const jobFileName = "job.yaml"

// keepJob writes the job file for "cprof place" into the run.
func (d *demonstration) keepJob() error {
	text, err := d.describeJob()
	if err != nil {
		return fmt.Errorf("describe the job: %w", err)
	}
	d.jobFile = text
	if err := os.WriteFile(filepath.Join(d.runPath(), jobFileName), text, 0o600); err != nil {
		return fmt.Errorf("describe the job: %w", err)
	}
	return nil
}

// describeJob writes the job file. The file contains what the run measured: how long operators
// work, how many tuples they get, and how long tuples travel from node to node.
func (d *demonstration) describeJob() ([]byte, error) {
	var b bytes.Buffer
	actors := d.placement.Actors
	fmt.Fprintf(&b, "# The job of this run: cprof place %s says where it should run.\n",
		jobFileName)
	b.WriteString("# Each time is a median over all tuples, with its bound.\n" +
		"version: 1\noperators:\n")
	for i, stage := range job.Stages {
		work, tuples, err := d.workingTimes(stage)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "  - {name: %s, time: %s, instances: %d", stage, work, len(actors[stage]))
		switch i {
		case 0: // tuples come to this node from outside
			fmt.Fprintf(&b, ", per_second: %.0f, nodes: [%s]}\n", tuples, actors[stage][0])
		case len(job.Stages) - 1: // it waits until other nodes have a copy, and keeps no core busy
			fmt.Fprintf(&b, ", nodes: [%s]}\n", actors[stage][0])
		default:
			fmt.Fprintf(&b, ", per_second: %.0f}\n", tuples)
		}
	}
	fmt.Fprintf(&b, "edges:\n  - [%s]\nnodes:\n", strings.Join(job.Stages, ", "))
	for _, n := range d.setups {
		fmt.Fprintf(&b, "  - {name: %s, cores: %d}\n", n.Node.Name, len(n.PhysicalCores))
	}
	if err := d.describeLatencies(&b); err != nil {
		return nil, err
	}
	fmt.Fprintln(&b, "now:")
	for _, stage := range job.Stages {
		fmt.Fprintf(&b, "  %s: [%s]\n", stage, strings.Join(actors[stage], ", "))
	}
	return b.Bytes(), nil
}

// describeLatencies writes how long tuples travel. Between nodes, the run measured these latencies.
// A tuple passes two servers of NATS between nodes, but only one within a node. So within a node, a
// tuple travels at most as long as between the two fastest nodes. The job file therefore gives the
// latency within a node as a range from 0 to the lowest latency between nodes.
func (d *demonstration) describeLatencies(b *bytes.Buffer) error {
	type ends struct{ lo_ns, hi_ns int64 }
	least, most := int64(math.MaxInt64), int64(0)
	known := map[[2]string]ends{}
	for way, all := range d.transfers {
		var lo, hi []int64
		for _, e := range all {
			lo, hi = append(lo, max(0, e.Lo)), append(hi, e.Hi)
		}
		lo_ns, hi_ns, ok := d.Answer.Reference.Nanoseconds().Of(analysis.Interval{
			Lo_cycles: percentile(lo, 50), Hi_cycles: percentile(hi, 50),
		})
		if !ok {
			return errors.New("the frequency of the reference is not known")
		}
		known[way] = ends{lo_ns, hi_ns}
		least, most = min(least, lo_ns), max(most, hi_ns)
	}
	if len(known) == 0 {
		return errors.New("no tuple went from node to node")
	}
	fmt.Fprintf(b, "local: 0ns..%dns # within a node, a tuple passes one server instead of two\n"+
		"latencies: # of tuples, over NATS\n", least)
	for i, from := range d.setups {
		for _, into := range d.setups[i+1:] {
			there := [2]string{from.Node.Name, into.Node.Name}
			for _, way := range [][2]string{there, {there[1], there[0]}} {
				if e, ok := known[way]; ok {
					fmt.Fprintf(b, "  - {from: %s, into: %s, time: %dns..%dns}\n", way[0], way[1],
						e.lo_ns, e.hi_ns)
				}
			}
			_, ok := known[there]
			if _, back := known[[2]string{there[1], there[0]}]; !ok && !back {
				fmt.Fprintf(b, "  - {from: %s, into: %s, time: %dns..%dns} # no tuple went here: "+
					"as between all others\n", there[0], there[1], least, most)
			}
		}
	}
	return nil
}

// workingTimes returns how long an operator works on a tuple, as a job file writes it, and how many
// tuples its instances together get per second.
func (d *demonstration) workingTimes(stage string) (work string, perSecond float64, err error) {
	i := slices.IndexFunc(d.Answer.Spans, func(s analysis.Span) bool {
		return s.From == stage+"/start" && s.To == stage+"/end" && s.Origin == ""
	})
	if i < 0 {
		return "", 0, fmt.Errorf("no tuple passed operator %q", stage)
	}
	all := d.Answer.Spans[i].All
	median, ok := all.Percentiles.At(50)
	median.Lo_cycles = max(0, median.Lo_cycles)
	lo_ns, hi_ns, known := d.Answer.Reference.Nanoseconds().Of(median)
	if !ok || !known {
		return "", 0, fmt.Errorf("too few tuples passed operator %q", stage)
	}
	return fmt.Sprintf("%dns..%dns", lo_ns, hi_ns),
		float64(all.Count) / d.jobLasts().Seconds(), nil
}

// placedLine is what "cprof demo --place --json" prints about the job in the new placement.
type placedLine struct {
	Operators map[string][]string `json:"operators"` // by operator: the nodes of its instances
	Checked   int                 `json:"durations_checked"`
	Outside   int                 `json:"outside"`
	Changes   []analysis.Change   `json:"changes"` // of the tuples' end-to-end latency
}

func (p *Placed) line() *placedLine {
	if p == nil {
		return nil
	}
	checked, _, outside := p.After.Checked()
	return &placedLine{p.Actors, checked, outside, p.Changes}
}

func printPlaced(w io.Writer, p *Placed, o Options) error {
	fmt.Fprintf(w, "\nwhere the operators should run, by \"cprof place\" and what this run "+
		"measured:\n\n%s", p.Proposal)
	checked, _, outside := p.After.Checked()
	fmt.Fprintf(w, "\nthe job ran again, in this placement: %d durations checked against the "+
		"truth, %d outside of their bound; %d tuples, %d lost\n\n", checked, outside,
		p.After.Tuples, p.After.Lost)
	for _, c := range p.Changes {
		fmt.Fprintf(w, "%s → %s, p%g: %s before, %s after: %s\n", c.From, c.To, c.Percent,
			analysis.SecondsBetween(c.BeforeLo_ns, c.BeforeHi_ns),
			analysis.SecondsBetween(c.AfterLo_ns, c.AfterHi_ns), placedVerdict(c))
	}
	var err error
	if o.Keep != "" {
		_, err = fmt.Fprintf(w, "all spans: cprof diff %s %s; the placement again: cprof place "+
			"%s\n", o.Keep, PlacedDirectory(o.Keep), filepath.Join(o.Keep, jobFileName))
	}
	return err
}

// placedVerdict says whether the second run was surely faster than the first.
func placedVerdict(c analysis.Change) string {
	switch c.Verdict {
	case analysis.Faster:
		return "surely better, by more than bounds and chance"
	case analysis.Slower:
		return "surely worse, by more than bounds and chance"
	case analysis.Same:
		return "the same, within chance"
	}
	if c.Why == "" {
		return "not surely better"
	}
	return "not surely better: " + c.Why
}
