package fleet

import (
	"fmt"
	"io"
	"sync"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/placement"
	"github.com/cloudprofiler/cloudprofiler/placement/job"
)

func newPlace() *cobra.Command {
	var server serverFlags
	var asJSON, compare bool
	cmd := &cobra.Command{
		Use:   "place JOB.yaml",
		Short: "Put the operators of a job on nodes, so that its latency is smallest",
		Long: `Put the operators of a job on nodes, so that its end-to-end latency is smallest.

JOB.yaml lists the operators, and says which of them send tuples to which. For each operator, it
says how long the operator works on a tuple, how many tuples it gets, and where it runs today. The
server says which nodes there are, how many cores they have, and how long packets take between them.
This latency is a range: from half of the round trip of the fastest train to a value that nine of
ten trains do not exceed. If the file lists nodes and latencies, place asks no server.

The end-to-end latency is the time of the slowest path through the job, if everything takes as long
as it can. place proves that its placement is the best, or says how far it may be from a limit that
no placement can beat. It compares the placement with today's. "Surely better" means faster for all
latencies within their ranges.

Exit code 3: some latencies were not measured, and place had to assume the fastest route over other
nodes.`,
		Example: `  cprof place job.yaml
  cprof place job.yaml --json | jq .operators
  cprof place job.yaml --today`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := readPlan(cmd, &server, args[0])
			if err != nil {
				return err
			}
			if compare && p.file.Now == nil {
				return command.Usagef("--today, but %q does not say where the operators run: add "+
					"%q", args[0], "now:")
			}
			if err := p.solve(compare); err != nil {
				return fmt.Errorf("place %q: %w", args[0], err)
			}
			if asJSON {
				err = printJSON(cmd, p.result())
			} else {
				p.print(cmd.OutOrStdout())
			}
			if err == nil && p.missingLatencies > 0 {
				err = fmt.Errorf("%d latencies were not measured: %w", p.missingLatencies,
					command.ErrPartial)
			}
			return err
		},
	}
	server.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&compare, "today", false,
		"only say what today's placement takes, without looking for a better one")
	return cmd
}

// jobPlan is a job with its latencies, and the placement that was found for it.
type jobPlan struct {
	file             *job.File
	problem          *placement.Problem
	measured         bool // the server gave the latencies
	missingLatencies int  // how many latencies are only known from routes over other nodes

	answer         *placement.Answer // nil: no placement was searched for
	todayPlacement *placement.End    // nil: the file does not say where operators run
	todayProblem   error             // why today's placement is not allowed; nil: it is allowed

	better placement.Difference // answer compared with today
}

// readPlan reads a job file, and asks the server for what the file leaves out.
func readPlan(cmd *cobra.Command, server *serverFlags, path string) (*jobPlan, error) {
	matrix := sync.OnceValues(func() (*coordinator.Matrix, error) {
		var m coordinator.Matrix
		link, err := server.dial(cmd)
		if err != nil {
			return nil, err
		}
		defer link.Close()
		return &m, askNodes(cmd, link, coordinator.NodesRequest{}, &m)
	})
	file, err := job.Read(path, func() ([]placement.Node, error) {
		m, err := matrix()
		if err != nil {
			return nil, err
		}
		return nodesOf(m), nil
	})
	if err != nil {
		return nil, err
	}
	p := &jobPlan{file: file}
	latencies := file.Latencies
	if latencies == nil && len(file.Job.Nodes) > 1 {
		m, err := matrix()
		if err != nil {
			return nil, err
		}
		p.measured, latencies = true, latenciesOf(m)
	}
	if err := p.connect(latencies); err != nil {
		return nil, fmt.Errorf("place %q: %w", path, err)
	}
	return p, nil
}

// connect adds the latencies between nodes to the job, and then checks the job.
func (p *jobPlan) connect(latencies []job.Latency) (err error) {
	if p.missingLatencies, err = p.file.Connect(latencies); err != nil {
		return err
	}
	p.problem, err = placement.New(&p.file.Job)
	return err
}

// Place answers "cprof place" for a job file that lists its nodes and latencies. It prints the
// answer, and returns where each operator should run.
func Place(out io.Writer, file *job.File) (placement.Placement, error) {
	p := &jobPlan{file: file}
	if err := p.connect(file.Latencies); err != nil {
		return nil, err
	}
	if err := p.solve(false); err != nil {
		return nil, err
	}
	p.print(out)
	return p.answer.At, nil
}

// nodesOf returns those nodes of a fleet that are connected to the server at present.
func nodesOf(m *coordinator.Matrix) (nodes []placement.Node) {
	for _, n := range m.Nodes {
		if n.Alive {
			nodes = append(nodes, placement.Node{Name: n.Name, Cores: float64(n.Cores), Speed: 1})
		}
	}
	return nodes
}

// latenciesOf returns the latencies that a fleet measured. It takes half of a round trip as the
// latency of each direction.
func latenciesOf(m *coordinator.Matrix) (all []job.Latency) {
	for _, p := range m.Pairs {
		if r := p.RoundTrip; r != nil && !p.Old {
			all = append(all, job.Latency{From: p.From, Into: p.Into,
				Range: placement.Range{Lo_ns: r.Least_ns / 2, Hi_ns: r.Most_ns / 2}})
		}
	}
	return all
}

func (p *jobPlan) solve(onlyToday bool) error {
	if now := p.file.Now; now != nil {
		end := p.problem.End(now)
		p.todayPlacement, p.todayProblem = &end, p.problem.Allowed(now)
	}
	if onlyToday {
		return nil
	}
	a, err := p.problem.Solve(placement.DefaultEffort())
	if err != nil {
		return err
	}
	p.answer = &a
	if p.todayPlacement != nil {
		p.better = p.problem.Better(a.At, p.file.Now)
	}
	return nil
}
