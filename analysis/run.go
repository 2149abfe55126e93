package analysis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

func (in *input) workers() int {
	if in.options.Events != nil || in.options.Durations != nil {
		return 1
	}
	if in.options.Workers > 0 {
		return in.options.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// Run analyzes a run. The error may wrap ErrNothing, ErrEdge, ErrScratch, the context's cause, or
// the error of a function in the options. If a part of the run is missing or damaged, the answer
// says so, and Run returns no error.
func Run(ctx context.Context, dir *runs.Directory, o Options) (answer *Answer, err error) {
	began := time.Now()
	if err := o.defaults(); err != nil {
		return nil, err
	}
	s := newScratch(cmp.Or(o.Scratch, os.TempDir()), o.Memory_bytes/2, o.Scratch_bytes)
	defer func() { err = errors.Join(err, s.close()) }()
	if answer, err = takeSteps(ctx, dir, o, s); err != nil {
		return nil, fmt.Errorf("analyze run %q: %w", dir.Run.Name, err)
	}
	answer.Work.Seconds, answer.Work.Scratch_bytes = time.Since(began).Seconds(), s.used.Load()
	return answer, nil
}

// takeSteps does the steps of an analysis, one after the other.
func takeSteps(ctx context.Context, dir *runs.Directory, o Options, s *scratch) (*Answer, error) {
	in, err := openInput(dir, o)
	if err != nil {
		return nil, err
	}
	if err := in.checkNotEmpty(); err != nil {
		return nil, err
	}
	in.findUnrelated()
	t := newTimer(in)
	if err := in.resolveFilter(); err != nil {
		return nil, err
	}
	bins, axes := in.axes(t)
	all, err := in.scatter(ctx, s, axes)
	if err != nil {
		return nil, err
	}
	in.pauses = in.newPauses(t, all.told)
	if err := in.exportPauses(); err != nil {
		return nil, err
	}
	if err := in.rename(ctx, s, all, axes); err != nil {
		return nil, err
	}
	g, err := in.sample(ctx, all, axes)
	if err != nil {
		return nil, err
	}
	a := &assembler{in: in, graph: g, told: all.told, timer: t, bins: bins}
	g.gaps = a.gapsByRank()
	if err := in.tellBegin(bins, all.told); err != nil {
		return nil, err
	}
	if a.found, err = in.gatherAll(ctx, s, all, g, axes); err != nil {
		return nil, err
	}
	if a.returns, err = in.returnTrips(ctx, all, g, axes); err != nil {
		return nil, err
	}
	in.progress(1, "done")
	answer := a.answer()
	answer.Work.Tuples = a.found.tuples
	for i := range all.told {
		if in.sources[i].trip == noTrip {
			answer.Work.Events += all.told[i].events
		}
	}
	answer.noteNothingChosen(&o.Filter)
	return answer, nil
}

// checkNotEmpty returns ErrNothing if the run has nothing to analyze.
func (in *input) checkNotEmpty() error {
	switch {
	case len(in.nodes) == 0:
		return fmt.Errorf("it names no nodes: %w", ErrNothing)
	case in.clocks.reference < 0:
		return fmt.Errorf("it has no log that can be read: %s: %w", missingText(in.missing),
			ErrNothing)
	}
	return nil
}

// tellBegin calls Options.Begin, and tells it what the answer will rest on.
func (in *input) tellBegin(bins Bins, of []told) error {
	if in.options.Begin == nil {
		return nil
	}
	b, c := in.basis(bins), in.ofAll(of)
	b.Kept, b.Lacks = c.Kept, c.Text()
	return in.options.Begin(b)
}

// gatherAll sums up all tuples: first by their ids, and then along the links between tuples.
func (in *input) gatherAll(ctx context.Context, s *scratch, all *scatteredLogs, g *graph,
	axes []axis) (
	*gatherResult, error) {
	l := in.newLineage(s, all)
	f, err := in.gather(ctx, all, g, axes, l)
	if err != nil || l == nil {
		return f, err
	}
	w := in.newGatherer(g, axes)
	if err := l.measureLineage(ctx, all, w); err != nil {
		return nil, err
	}
	f.merge(&w.found, in.options.Slowest)
	if w.orphans > 0 {
		in.addFinding(FindUndecided,
			"%d tuples that were made of others came to the end, but where "+
				"those others began is not known", w.orphans)
	}
	return f, nil
}

// noteNothingChosen adds a note to the answer if the filter leaves no tuple.
func (a *Answer) noteNothingChosen(f *Filter) {
	if !f.leavesOut() || a.Work.Tuples > 0 || a.Length != nil || len(a.Counters) > 0 {
		return
	}
	a.Comparisons = nil // comparisons cover the time of tuples, and there are none
	a.Missing = append(a.Missing, Missing{
		Part: "tuples",
		Reason: "no tuple of the run is among those chosen by time, node, channel or id: " +
			"choose more",
	})
	a.Partial = true
}

func missingText(missing []runs.Missing) string {
	if len(missing) == 0 {
		return "there is none"
	}
	var parts []string
	for _, m := range missing[:min(len(missing), 3)] {
		parts = append(parts, m.String())
	}
	return strings.Join(parts, "; ")
}

// resolveFilter converts the filter's UTC times to cycles of the reference.
func (in *input) resolveFilter() error {
	f := &in.options.Filter
	if f.To_utc_ns == 0 {
		return nil
	}
	c := in.clockFacts(Bins{})
	var err error // rounded outward, to choose every tuple that may have begun within the times
	f.From_cycles, f.To_cycles, err = c.Cycles(f.From_utc_ns, f.To_utc_ns)
	return err
}

// referenceHeader is the header of a log of the reference node. If no log of this node was chosen,
// another of its logs is used.
func (in *input) referenceHeader() (logstore.Header, bool) {
	for _, s := range in.sources {
		if s.node == in.clocks.reference {
			return s.header, true
		}
	}
	logs, _ := in.run.Logs()
	for _, l := range logs {
		for _, s := range l.Segments {
			if l.Node != in.nodes[in.clocks.reference].node {
				break
			}
			f, err := logstore.OpenFile(s.Path)
			if err != nil {
				continue
			}
			h := f.Header()
			f.Close()
			if in.nodeOf(l.Node, h.Epoch) == in.clocks.reference {
				return h, true
			}
		}
	}
	return logstore.Header{}, false
}
