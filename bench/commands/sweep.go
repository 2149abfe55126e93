package commands

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/bench"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
)

// sweepProcess is the hidden command that runs the server or clients of a sweep. "cp-bench sweep"
// starts it.
const sweepProcess = "sweep-process"

// sweepBars are the bars of a sweep, by the number of clients and exchanges to which they apply.
var sweepBars = []struct {
	clients, exchanges int
	seconds            float64
	megabytes          float64 // private memory of the server; 0: no bar
}{
	{30, 100, 5, 0},
	{100, 20, 60, 200},
}

// qualityLimit is how wide the bound of a pair may be if the whole fleet is measured together, as a
// multiple of the bound of a pair that is measured alone.
const qualityLimit = 1.3

func newBenchSweep() *cobra.Command {
	o := bench.SweepOptions{}
	var asJSON, quality bool
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Measure what it costs to relate all pairs of a fleet's nodes",
		Long: `Measure what it costs to relate all pairs of a fleet's nodes.

A real server and real clients run in a few processes, and exchange packets over the loopback
interface. The time is from the first registration to the end of the last pair's measurement.

The server measures --width pairs at a time, which takes the least time. With --quality, it decides
itself which pairs it measures at the same time. The bounds are then compared with those of pairs
that are measured one at a time.`,
		Example: `  cp-bench sweep --clients 30 --exchanges 100
  cp-bench sweep --clients 100 --exchanges 20 --json
  cp-bench sweep --clients 10 --quality`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Clients < 2 || o.Clients > bench.MaxSweepClients {
				return command.Usagef("--clients %d: want 2 to %d", o.Clients,
					bench.MaxSweepClients)
			}
			if o.Exchanges < 1 || o.Exchanges > 10_000 {
				return command.Usagef("--exchanges %d: want 1 to 10000", o.Exchanges)
			}
			if quality {
				o.Width, o.Trains, o.Alone = 0, 4, 15
			}
			o.Command = func(job string) (*exec.Cmd, error) {
				return reexec.Command(sweepProcess, job)
			}
			p := command.NewProgress(cmd.ErrOrStderr())
			o.Progress = func(step string) { p.Show("%s", step) }
			r, err := bench.Sweep(cmd.Context(), o)
			p.Done()
			if err != nil {
				return err
			}
			if err := proof.Report(barsOfSweep(r)...); err != nil {
				return err
			}
			return printSweep(cmd, r, asJSON)
		},
	}
	cmd.Flags().IntVar(&o.Clients, "clients", 30, "clients of the fleet")
	cmd.Flags().IntVar(&o.Exchanges, "exchanges", 100, "exchanges each way, for each pair")
	cmd.Flags().IntVar(&o.Width, "width", 4, "pairs to measure side by side")
	cmd.Flags().BoolVar(&quality, "quality", false,
		"sweep for quality, and compare with pairs measured alone")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func barsOfSweep(r bench.SweepResult) (bars []proof.Bar) {
	name := fmt.Sprintf("sweep of %d clients, %d exchanges each way", r.Clients, r.Exchanges)
	absent := ""
	if len(r.Lost) > 0 { // a node that gets no core for seconds seems to be silent
		absent = fmt.Sprintf("%d pairs were not measured", len(r.Lost))
	}
	if r.Alone_ns > 0 {
		return []proof.Bar{{Name: name + ", for quality: median half-width of a pair",
			Figure: r.Median_ns / r.Alone_ns, Limit: qualityLimit, Unit: "× that of a pair alone",
			Absent: absent, Timing: true}}
	}
	for _, b := range sweepBars {
		if b.clients != r.Clients || b.exchanges != r.Exchanges {
			continue
		}
		if len(r.Lost) > 0 {
			bars = append(bars, proof.Bar{
				Name:   name + ": pairs that were lost",
				Figure: float64(len(r.Lost)), Unit: "pairs", Timing: true,
			})
		}
		bars = append(bars, proof.Bar{
			Name: name, Figure: r.Seconds, Limit: b.seconds, Unit: "s",
			Absent: absent, Timing: true,
		})
		if b.megabytes > 0 {
			bars = append(bars, proof.Bar{Name: name + ": the server's private memory",
				Figure: float64(r.ServerPrivate) / 1e6, Limit: b.megabytes, Unit: "MB",
				Timing: true})
		}
	}
	return bars
}

// sweepLine is what "cp-bench sweep --json" prints. Scripts read it: append only.
type sweepLine struct {
	Clients         int     `json:"clients"`
	Exchanges       int     `json:"exchanges"`
	Pairs           int     `json:"pairs"`
	Lost            int     `json:"lost"`
	Seconds         float64 `json:"seconds"`
	SweepSeconds    float64 `json:"sweep_seconds"`
	ServerPrivateMB float64 `json:"server_private_mb"`
	MedianBound_ns  float64 `json:"median_bound_ns"`
	AloneBound_ns   float64 `json:"alone_bound_ns,omitempty"`
	KernelStamps    float64 `json:"kernel_stamps_percent"`
}

func printSweep(cmd *cobra.Command, r bench.SweepResult, asJSON bool) error {
	out := cmd.OutOrStdout()
	if asJSON {
		return json.NewEncoder(out).Encode(sweepLine{
			r.Clients, r.Exchanges, r.Pairs, len(r.Lost), r.Seconds, r.SweepSeconds,
			float64(r.ServerPrivate) / 1e6, r.Median_ns, r.Alone_ns, r.KernelStamps,
		})
	}
	took := time.Duration(r.Seconds * 1e9).Round(time.Millisecond)
	fmt.Fprintf(out, "clients     %d; %d pairs complete, %d lost\n",
		r.Clients, r.Pairs, len(r.Lost))
	fmt.Fprintf(out, "exchanges   %d each way\n", r.Exchanges)
	fmt.Fprintf(out, "time        %s from the first registration to the last pair\n", took)
	fmt.Fprintf(out, "server      %.1f MB of private memory at most\n",
		float64(r.ServerPrivate)/1e6)
	fmt.Fprintf(out, "bound       ± %.2f µs, the median pair; "+
		"%.0f %% of the stamps are the kernel's\n",
		r.Median_ns/1000, r.KernelStamps)
	if r.Alone_ns > 0 {
		fmt.Fprintf(out, "alone       ± %.2f µs, the median of pairs measured alone: "+
			"%.2f times that\n",
			r.Alone_ns/1000, r.Median_ns/r.Alone_ns)
	}
	for _, l := range r.Lost {
		fmt.Fprintf(out, "lost        %s with %s: %s\n", l.A, l.B, l.Why)
	}
	if len(r.Lost) > 0 {
		return fmt.Errorf("%d pairs were not measured: %w", len(r.Lost), command.ErrPartial)
	}
	return nil
}

func newBenchSweepProcess() *cobra.Command {
	return &cobra.Command{
		Use:    sweepProcess + " JOB",
		Short:  "Be a part of \"cp-bench sweep\"",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch args[0] {
			case bench.SweepServerJob:
				return bench.SweepServer(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
			case bench.SweepClientsJob:
				return bench.SweepClients(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
			}
			return command.Usagef("no job %q", args[0])
		},
	}
}
