package demo

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/examples/adstream/job"
	"github.com/cloudprofiler/cloudprofiler/internal/truth"
	webpage "github.com/cloudprofiler/cloudprofiler/report"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// answer makes the report of the collected run, as "cprof report" does, and compares it with the
// truth.
func (d *demonstration) answer(ctx context.Context, run *runs.Directory) error {
	physical, err := readPhysicals(nil, d.logDirectories()...)
	if err != nil {
		return err
	}
	if err := d.analyse(ctx, run, physical); err != nil {
		return err
	}
	d.countLost()
	if err := d.keepJob(); err != nil {
		return err
	}
	return d.keepReport(run)
}

// keepReport writes the report's page, and copies the run, if the user wants to keep the run.
func (d *demonstration) keepReport(run *runs.Directory) error {
	if d.o.Keep == "" {
		return nil
	}
	d.o.Progress("writing the page")
	data := webpage.From(d.Answer, run, d.o.Program)
	if o, ok := d.engine.(Observed); ok {
		if err := o.Describe(run, data); err != nil {
			return err
		}
	}
	var page bytes.Buffer
	if err := webpage.Write(&page, data); err != nil {
		return err
	}
	if err := run.WriteReport(page.Bytes()); err != nil {
		return err
	}
	if err := os.CopyFS(d.o.Keep, os.DirFS(d.runPath())); err != nil {
		return errors.Join(fmt.Errorf("keep the run: %w", err), os.RemoveAll(d.o.Keep))
	}
	return nil
}

// countLost counts the events that are in no log, and adds their number to the field Lost.
func (d *demonstration) countLost() {
	for _, c := range d.Answer.Channels {
		d.Lost += int(c.Dropped + c.Unaccounted)
	}
}

// analyse analyses the run twice: first over the job's edges, from each point to the next, and then
// from each tuple's beginning to every later point.
func (d *demonstration) analyse(
	ctx context.Context, run *runs.Directory, physical pointEvents,
) error {
	d.Wander = run.Run.Assumptions().Wander
	known, missing := truth.Of(run)
	if known == nil || len(missing) > 0 {
		return fmt.Errorf("read the truth about the nodes from the run: %v", missing)
	}
	d.transfers = map[[2]string][]tscratio.Elapsed{}
	for _, edges := range [][][2]string{nil, sinceStart()} {
		d.o.Progress("joining tuples, checking their durations against the truth")
		spans := newSpans(edges != nil)
		take := func(row analysis.DurationRow, truth int64) {
			spans.take(row, truth)
			if row.Kind == "transfer" && row.FromNode != row.ToNode && edges == nil {
				way := [2]string{row.FromNode, row.ToNode}
				d.transfers[way] = append(d.transfers[way], row.Elapsed)
			}
		}
		check, err := newChecker(physical, nil, d.Nodes[0].Clocks.Counter, take)
		if err != nil {
			return err
		}
		o := analysis.Options{
			Edges: edges, OnlyEdges: edges != nil, Durations: check.checkDuration,
			Scratch: d.scratch,
		}
		if edges == nil {
			// The page shows this answer. The analysis itself compares the answer with the truth,
			// as it does for any run of virtual nodes. For this comparison it uses only the run,
			// and not the physical readings.
			o.Truth = known.Truth
		}
		answer, err := analysis.Run(ctx, run, o)
		if err != nil {
			return err
		}
		if d.Answer == nil {
			d.Answer = answer
		}
		d.whole = answer
		for _, h := range spans.order {
			h.Percentiles = percentilesOf(answer, h)
		}
		d.Spans = append(d.Spans, spans.order...)
	}
	return nil
}

// percentilesOf returns the percentiles of a span in the answer.
func percentilesOf(a *analysis.Answer, h *Span) analysis.Percentiles {
	for _, spans := range [][]analysis.Span{a.Spans, a.EndToEnd} {
		for _, l := range spans {
			if l.From == h.From && l.To == h.To && l.Origin == "" {
				return l.All.Percentiles
			}
		}
	}
	return nil
}

// sinceStart returns edges from the start of the first stage. They lead to the start and the end of
// each later stage except the last.
func sinceStart() (edges [][2]string) {
	for _, stage := range job.Stages[1 : len(job.Stages)-1] {
		for _, point := range []string{"start", "end"} {
			edges = append(edges, [2]string{job.Stages[0] + "/start", stage + "/" + point})
		}
	}
	return edges
}
