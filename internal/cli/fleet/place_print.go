package fleet

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/placement"
)

// rangeText writes a range of times in µs, rounded outward.
func rangeText(lo_ns, hi_ns float64) string {
	return fmt.Sprintf("%.1f to %.1f µs", command.RoundDown(lo_ns/1000, 1),
		command.RoundUp(hi_ns/1000, 1))
}

func (p *jobPlan) print(out io.Writer) {
	job := &p.file.Job
	if a := p.answer; a != nil {
		used := 0
		loads := p.problem.Loads(a.At)
		for _, load := range loads {
			if load > 0 {
				used++
			}
		}
		fmt.Fprintf(out, "%d operators on %d of %d nodes: end to end %s\n", len(a.At), used,
			len(job.Nodes), rangeText(a.End.Latency.Lo_ns, a.End.Latency.Hi_ns))
		if a.Exact {
			fmt.Fprintln(out, "no placement is faster (proven)")
		} else {
			fmt.Fprintf(out, "no placement takes less than %.1f µs: this one takes at most "+
				"%.1f %% more than the best\n", command.RoundDown(a.Limit_ns/1000, 1),
				command.RoundUp(100*a.Gap(), 1))
		}
		if a.Stopped {
			fmt.Fprintln(out, "the time was over: with less other work on this machine, place may "+
				"find a faster placement")
		}
		fmt.Fprintln(out)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "operator\tnode\tits cores, used\ttoday")
		for v, i := range a.At {
			today := ""
			if p.todayPlacement != nil && p.file.Now[v] != i {
				today = job.Nodes[p.file.Now[v]].Name
			}
			fmt.Fprintf(w, "%s\t%s\t%.2f of %g\t%s\n", job.Operators[v].Name, job.Nodes[i].Name,
				loads[i], job.Nodes[i].Cores, today)
		}
		w.Flush()
		p.path(out, "slowest path", a.At, a.End)
	}
	p.printToday(out)
	fmt.Fprintln(out)
	if p.measured {
		fmt.Fprintln(out, "assumed: a tuple takes half of a measured round trip each way")
	}
	if p.missingLatencies > 0 {
		fmt.Fprintf(out, "assumed: %d latencies that were not measured are at most those of the "+
			"fastest route over other nodes\n", p.missingLatencies)
	}
	fmt.Fprintln(out, "not counted: waits of tuples for a busy operator, and the time to encode "+
		"tuples, unless an operator's time includes them")
}

func (p *jobPlan) printToday(out io.Writer) {
	if p.todayPlacement == nil {
		return
	}
	fmt.Fprintf(out, "\ntoday: end to end %s\n",
		rangeText(p.todayPlacement.Latency.Lo_ns, p.todayPlacement.Latency.Hi_ns))
	p.path(out, "today's slowest path", p.file.Now, *p.todayPlacement)
	if p.todayProblem != nil {
		fmt.Fprintf(out, "today's placement is not allowed: %v\n", p.todayProblem)
	}
	if p.answer == nil {
		return
	}
	switch d := p.better; {
	case d.SurelyFaster():
		fmt.Fprintf(out, "the placement is surely better than today's, by %s\n",
			rangeText(-d.Hi_ns, -d.Lo_ns))
	case d.SurelySlower():
		fmt.Fprintf(out, "the placement is surely worse than today's, by %s\n",
			rangeText(d.Lo_ns, d.Hi_ns))
	default:
		fmt.Fprintf(out, "the placement is not surely better than today's: between %.1f µs faster "+
			"and %.1f µs slower\n", command.RoundUp(-d.Lo_ns/1000, 1),
			command.RoundUp(d.Hi_ns/1000, 1))
	}
}

// path prints the operators on the job's slowest path, and the latencies between their nodes.
func (p *jobPlan) path(out io.Writer, what string, at placement.Placement, end placement.End) {
	job := &p.file.Job
	fmt.Fprintf(out, "\n%s:\n", what)
	for k, v := range end.Path {
		if k > 0 {
			if from := at[end.Path[k-1]]; from != at[v] {
				l := job.Latency[from][at[v]]
				fmt.Fprintf(out, "    travels %s\n", rangeText(l.Lo_ns, l.Hi_ns))
			}
		}
		t := job.Operators[v].Time
		speed := job.Nodes[at[v]].Speed
		fmt.Fprintf(out, "  %s on %s works %s\n", job.Operators[v].Name, job.Nodes[at[v]].Name,
			rangeText(t.Lo_ns/speed, t.Hi_ns/speed))
	}
}

// placeResult is what cprof place --json prints. Times are in nanoseconds.
type placeResult struct {
	Operators []placedOperator `json:"operators,omitempty"`
	Latency   *[2]float64      `json:"latency_ns,omitempty"`
	Limit_ns  float64          `json:"limit_ns,omitempty"` // no placement takes less
	Exact     bool             `json:"exact"`
	Stopped   bool             `json:"stopped,omitempty"` // the time was over
	Path      []string         `json:"slowest_path,omitempty"`
	Today     *todayResult     `json:"today,omitempty"`
	Missing   int              `json:"latencies_not_measured"`
}

type placedOperator struct {
	Operator string `json:"operator"`
	Node     string `json:"node"`
}

type todayResult struct {
	Latency [2]float64 `json:"latency_ns"`
	Path    []string   `json:"slowest_path"`
	Problem string     `json:"problem,omitempty"` // why it is not allowed

	// Difference_ns is the latency of the new placement minus the latency of today's placement: the
	// least and the largest value that the measurements allow.
	Difference_ns *[2]float64 `json:"difference_ns,omitempty"`
	Verdict       string      `json:"verdict,omitempty"`
}

func (p *jobPlan) result() placeResult {
	job := &p.file.Job
	names := func(path []int) (all []string) {
		for _, v := range path {
			all = append(all, job.Operators[v].Name)
		}
		return all
	}
	r := placeResult{Missing: p.missingLatencies}
	if a := p.answer; a != nil {
		for v, i := range a.At {
			r.Operators = append(r.Operators,
				placedOperator{job.Operators[v].Name, job.Nodes[i].Name})
		}
		r.Latency = &[2]float64{a.End.Latency.Lo_ns, a.End.Latency.Hi_ns}
		r.Limit_ns, r.Exact, r.Stopped = a.Limit_ns, a.Exact, a.Stopped
		r.Path = names(a.End.Path)
	}
	if p.todayPlacement != nil {
		r.Today = &todayResult{
			Latency: [2]float64{p.todayPlacement.Latency.Lo_ns, p.todayPlacement.Latency.Hi_ns},
			Path:    names(p.todayPlacement.Path),
		}
		if p.todayProblem != nil {
			r.Today.Problem = p.todayProblem.Error()
		}
		if p.answer != nil {
			r.Today.Difference_ns = &[2]float64{p.better.Lo_ns, p.better.Hi_ns}
			r.Today.Verdict = p.better.String()
		}
	}
	return r
}
