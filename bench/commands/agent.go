package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/bench"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// These are the bars of an agent.
const (
	maxProducerRatio    = 1.6
	maxAgentCores       = 0.5
	maxAgentPrivateMB   = 300
	maxIdleAgentCores   = 0.005
	benchAgentSeconds   = 3
	proveAgentSeconds   = 60
	shortestAgentMeans  = time.Second
	fewestAgentTurns    = 4
	benchAgentProcessOf = "agent-process"
)

type benchAgentFlags struct {
	json     bool
	duration time.Duration
	rows     []string
	dir      string
	logs     string
}

func newBenchAgent() *cobra.Command {
	var flags benchAgentFlags
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Measure what an agent costs, and that it loses nothing",
		Long: `Measure what an agent costs, and that it loses nothing.

Each row has an agent of its own, in another process. At the end all logs are read: every event must
be there, in its order.

  one-producer   one channel that blocks, logged on at full speed: what a call costs in all, as a
                 ratio to a bare rdtscp that is measured between turns
  200-channels   200 channels with 50,000 events a second each: which share of a core the agent
                 takes, and how much private memory it has
  idle           6 channels on which nothing happens

If other processes took a tenth of a core in a turn of logging, the turn does not count for the
ratio. Its events must be in the logs all the same.

The bars: 1.6 × bare rdtscp; half a core and 300 MB; half a percent of a core; nothing lost.

Exit code 3: other processes disturbed nearly all turns.`,
		Example: `  cp-bench agent
  cp-bench agent --duration 60s
  cp-bench agent --rows idle --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runBenchAgent(cmd.Context(), flags, cmd.Flags().Changed("duration"),
				cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&flags.json, "json", false, "print one JSON object a line")
	cmd.Flags().DurationVar(&flags.duration, "duration", benchAgentSeconds*time.Second,
		"how long to log for each row")
	cmd.Flags().StringSliceVar(&flags.rows, "rows", bench.AgentRows(), "rows to measure")
	cmd.Flags().StringVar(&flags.dir, "rings", "",
		"directory in which to make one for the rings (default /dev/shm)")
	cmd.Flags().StringVar(&flags.logs, "logs", "",
		"directory in which to make one for the logs (default the one for temporary files)")
	return cmd
}

// newBenchAgentProcess returns the command that runs an agent. "cp-bench agent" starts this
// command.
func newBenchAgentProcess() *cobra.Command {
	return &cobra.Command{
		Use:     benchAgentProcessOf + " RINGS STATE",
		Short:   "An agent of cp-bench agent, which starts it",
		Hidden:  true,
		Example: "  cp-bench agent",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return bench.AgentProcess(args[0], args[1], cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

func runBenchAgent(ctx context.Context, flags benchAgentFlags, durationGiven bool,
	stdout, stderr io.Writer) error {
	if flags.duration < shortestAgentMeans {
		return command.Usagef("--duration %s: use %s or more", flags.duration, shortestAgentMeans)
	}
	for _, row := range flags.rows {
		if !slices.Contains(bench.AgentRows(), row) {
			return command.Usagef("--rows %q: use some of %s",
				row, strings.Join(bench.AgentRows(), ", "))
		}
	}
	size, err := proof.Wanted()
	if err != nil {
		return err
	}
	if size == proof.Full && !durationGiven {
		flags.duration = proveAgentSeconds * time.Second
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	line := command.NewProgress(stderr)
	rows, err := bench.Agent(ctx, bench.AgentOptions{
		Duration: flags.duration, Command: []string{self, benchAgentProcessOf},
		Rows: flags.rows, Dir: flags.dir, Logs: flags.logs,
		Progress: func(row, step string) { line.Show("%s: %s …", row, step) },
	})
	line.Done()
	if err != nil {
		return err
	}
	if err := proof.Report(agentBars(rows)...); err != nil {
		return err
	}
	if flags.json {
		err = printAgentJSON(stdout, rows)
	} else {
		err = printAgentTable(stdout, rows)
	}
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.Name == "one-producer" && r.Turns < fewestAgentTurns {
			return fmt.Errorf("%s: other processes disturbed %d of %d turns: "+
				"the ratio says little: %w",
				r.Name, r.Disturbed, r.Turns+r.Disturbed, command.ErrPartial)
		}
	}
	return nil
}

func agentBars(rows []bench.AgentRow) []proof.Bar {
	var bars []proof.Bar
	for _, r := range rows {
		switch r.Name {
		case "one-producer":
			bar := proof.Bar{
				Name:  "one producer, drained",
				Limit: maxProducerRatio, Unit: "× bare rdtscp", Timing: true,
			}
			if r.Turns < fewestAgentTurns {
				bar.Absent = fmt.Sprintf("other processes disturbed %d of %d turns",
					r.Disturbed, r.Turns+r.Disturbed)
			} else {
				bar.Figure = r.RatioToCounter
			}
			bars = append(bars, bar)
		case "200-channels":
			bars = append(bars,
				proof.Bar{Name: "agent of 200 channels",
					Figure: r.AgentCores, Limit: maxAgentCores, Unit: "cores", Timing: true},
				proof.Bar{Name: "agent of 200 channels, private memory",
					Figure: r.AgentPrivateMB, Limit: maxAgentPrivateMB, Unit: "MB", Timing: true})
		case "idle":
			bars = append(bars, proof.Bar{
				Name:   "idle agent",
				Figure: r.AgentCores, Limit: maxIdleAgentCores, Unit: "cores", Timing: true,
			})
			continue
		}
		bars = append(bars, proof.Bar{
			Name: r.Name + ", lost", Figure: float64(r.Lost), Unit: "events",
		})
	}
	return bars
}

// agentLine is a line of "cp-bench agent --json". Scripts read it: append only.
type agentLine struct {
	Name           string   `json:"name"`
	Seconds        float64  `json:"seconds"`
	RatioToCounter *float64 `json:"ratio_to_counter,omitempty"`
	Turns          int      `json:"turns,omitempty"`
	Disturbed      int      `json:"disturbed,omitempty"`
	Events         uint64   `json:"events"`
	Lost           uint64   `json:"lost"`
	AgentCores     float64  `json:"agent_cores"`
	AgentPrivateMB float64  `json:"agent_private_mb"`
	LogBytes       int64    `json:"log_bytes"`
}

func printAgentJSON(w io.Writer, rows []bench.AgentRow) error {
	encoder := json.NewEncoder(w)
	for _, r := range rows {
		l := agentLine{
			Name: r.Name, Seconds: r.Seconds, Turns: r.Turns, Disturbed: r.Disturbed,
			Events: r.Events, Lost: r.Lost, AgentCores: r.AgentCores,
			AgentPrivateMB: r.AgentPrivateMB, LogBytes: r.LogBytes,
		}
		if r.RatioToCounter > 0 {
			l.RatioToCounter = &r.RatioToCounter
		}
		if err := encoder.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

func printAgentTable(w io.Writer, rows []bench.AgentRow) error {
	fmt.Fprintf(w, "%s\n\n", thisMachine())
	fmt.Fprintf(w, "%-14s %8s %16s %10s %8s %12s %12s %12s\n",
		"row", "seconds", "events", "lost", "ratio", "agent cores", "agent MB", "log bytes")
	for _, r := range rows {
		ratio := "–"
		if r.RatioToCounter > 0 {
			ratio = fmt.Sprintf("%.2f", r.RatioToCounter)
		}
		_, err := fmt.Fprintf(w, "%-14s %8.1f %16s %10d %8s %12.4f %12.1f %12s\n",
			r.Name, r.Seconds, command.Thousands(r.Events), r.Lost, ratio,
			r.AgentCores, r.AgentPrivateMB, command.Thousands(uint64(r.LogBytes)))
		if err != nil {
			return err
		}
	}
	return nil
}
