package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/bench"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// These are the bars of a capture.
const (
	maxCaptureCost_ns    = 150
	maxCaptureThroughput = 2   // percent of throughput that a server may lose
	maxCaptureCPU        = 5   // percent of a core that a server may use in addition
	maxCaptureAgentCores = 0.1 // cores, at 100,000 calls a second

	captureProcessOf = "capture-process"
)

type benchCaptureFlags struct {
	json     bool
	pairs    int
	turn     time.Duration
	messages int
	rows     []string
	light    bool
	empty    bool
}

func newBenchCapture() *cobra.Command {
	var flags benchCaptureFlags
	cmd := &cobra.Command{
		Use:   "capture",
		Short: "Measure what a capture of messages costs, and that it misses none",
		Long: `Measure what a capture of messages costs, and that it misses none. It needs root.

Turns without and with a capture follow each other in pairs. A figure is the median of the pairs.
For ping-pong and flood there are four times as many pairs, a quarter as long.

  ping-pong     one thread sends 64 bytes back and forth over TCP: how much more processor time a
                call takes
  flood         the same, but the thread sends 32 messages before it receives them
  redis-10000   Redis at 10,000 operations a second, from 50 connections: how much more of a core
                it takes
  redis-limit   Redis at its limit: the share of operations that are lost; also for the same
                processor time, which depends less on what else the machine does
  nginx-limit   the same for nginx, with a small page
  agent-100000  the share of a core that the capture and its drainer take at 100,000 calls a second
  truth         every call is compared with the log, and every match with the call that received

The bars:
  ping-pong, flood          a call costs at most 150 ns
  redis-10000               at most 5 % of a core
  redis-limit, nginx-limit  at most 2 % of the throughput
  agent-100000              at most a tenth of a core
  truth                     every missed call is counted, and no match is wrong

With --empty, nothing is captured: eBPF programs that do nothing run in the places where those of a
capture would run. This shows how much of the cost is that of the kernel.

Exit code 3: a row could not be measured here, for example without Redis.`,
		Example: `  sudo cp-bench capture
  sudo cp-bench capture --rows ping-pong,truth --pairs 9
  sudo cp-bench capture --light --empty --rows redis-limit,nginx-limit
  sudo cp-bench capture --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runBenchCapture(cmd.Context(), flags, cmd.Flags().Changed,
				cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&flags.json, "json", false, "print one JSON object a line")
	cmd.Flags().IntVar(&flags.pairs, "pairs", 5, "pairs of turns without and with a capture")
	cmd.Flags().DurationVar(&flags.turn, "turn", time.Second, "how long a turn lasts")
	cmd.Flags().IntVar(&flags.messages, "messages", 1_000_000,
		"calls to compare with the truth, about 50 bytes of memory each")
	cmd.Flags().StringSliceVar(&flags.rows, "rows", bench.CaptureRows(), "rows to measure")
	cmd.Flags().BoolVar(&flags.light, "light", false, "leave out when calls begin, as with the "+
		"agent's key capture_light")
	cmd.Flags().BoolVar(&flags.empty, "empty", false, "measure eBPF programs that do nothing")
	return cmd
}

// newBenchCaptureProcess returns the command that exchanges messages. "cp-bench capture" starts it.
func newBenchCaptureProcess() *cobra.Command {
	return &cobra.Command{
		Use:     captureProcessOf,
		Short:   "The process whose messages cp-bench capture captures",
		Hidden:  true,
		Example: "  sudo cp-bench capture",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.CaptureProcess(cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

func runBenchCapture(ctx context.Context, flags benchCaptureFlags, given func(string) bool,
	stdout, stderr io.Writer) error {
	for _, row := range flags.rows {
		if !slices.Contains(bench.CaptureRows(), row) {
			return command.Usagef("--rows %q: use some of %s", row,
				strings.Join(bench.CaptureRows(), ", "))
		}
	}
	if flags.pairs < 1 || flags.turn <= 0 || flags.messages < 1 {
		return command.Usagef("--pairs %d, --turn %v, --messages %d: each must be positive",
			flags.pairs, flags.turn, flags.messages)
	}
	size, err := proof.Wanted()
	if err != nil {
		return err
	}
	switch {
	case size == proof.Full && !given("pairs"):
		flags.pairs, flags.turn, flags.messages = 25, 2*time.Second, 10_000_000
	case size == proof.Small && !given("pairs"):
		flags.pairs, flags.turn, flags.messages = 1, 200*time.Millisecond, 100_000
		if !given("rows") { // these rows need no server to be installed
			flags.rows = []string{"ping-pong", "flood", "agent-100000", "truth"}
		}
	}
	if flags.empty {
		flags.rows = slices.DeleteFunc(slices.Clone(flags.rows), func(row string) bool {
			return row == "agent-100000" || row == "truth" // nothing is captured
		})
	}
	var rows []bench.CaptureRow
	if err := privileged.Check(); err != nil {
		for _, name := range flags.rows {
			rows = append(rows, bench.CaptureRow{Name: name, Absent: err.Error()})
		}
	} else {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
		line := command.NewProgress(stderr)
		rows, err = bench.Capture(ctx, bench.CaptureOptions{
			Command: []string{self, captureProcessOf}, Pairs: flags.pairs, Turn: flags.turn,
			Messages: flags.messages, Rows: flags.rows, Light: flags.light, Empty: flags.empty,
			Progress: func(row string) { line.Show("%s …", row) },
		})
		line.Done()
		if err != nil {
			return err
		}
	}
	bars := captureBars(rows)
	return answer(bars, func() error {
		if flags.json {
			return printCaptureJSON(stdout, rows)
		}
		return printCaptureTable(stdout, rows, bars)
	})
}

func captureBars(rows []bench.CaptureRow) (bars []proof.Bar) {
	for _, r := range rows {
		percent := func(of []float64) (all []float64) {
			for _, v := range of {
				all = append(all, 100*v)
			}
			return all
		}
		add := func(what string, limit float64, unit string, of []float64) {
			bar := proof.Bar{Name: r.Name + what, Limit: limit, Unit: unit, Timing: true}
			if bar.Absent = r.Absent; r.Absent == "" {
				bar = bar.From(of)
			}
			bars = append(bars, bar)
		}
		switch r.Name {
		case "ping-pong", "flood":
			add(", added to a call", maxCaptureCost_ns, "ns", r.Changes)
		case "redis-10000":
			add(", more processor time", maxCaptureCPU, "% of a core", percent(r.Cores))
		case "redis-limit", "nginx-limit":
			add(", less throughput", maxCaptureThroughput, "%", percent(r.Changes))
			add(", less for its processor time", maxCaptureThroughput, "%", percent(r.Work))
		case "agent-100000":
			add(", agent", maxCaptureAgentCores, "cores", []float64{r.AgentCores})
		case "truth":
			t := r.Truth
			missed := int64(t.Calls-t.Captured) - int64(r.Lost)
			for _, b := range []proof.Bar{
				{Name: "calls missed and not counted", Figure: float64(max(missed, 0))},
				{Name: "messages matched wrongly", Figure: float64(t.Wrong)},
				{Name: "messages not matched", Limit: 2 * float64(r.Lost),
					Figure: float64(t.Sent - t.Matched - t.Wrong)},
			} {
				b.Unit, b.Absent = fmt.Sprintf("of %s", command.Thousands(t.Calls)), r.Absent
				bars = append(bars, b)
			}
		}
	}
	return bars
}

// captureLine is a line of "cp-bench capture --json". Scripts read it: append only.
type captureLine struct {
	Name       string    `json:"name"`
	Absent     string    `json:"absent,omitempty"`
	Off        float64   `json:"off,omitempty"`
	On         float64   `json:"on,omitempty"`
	Changes    []float64 `json:"changes,omitempty"`
	Cores      []float64 `json:"cores,omitempty"`
	AgentCores float64   `json:"agent_cores,omitempty"`
	PerSecond  float64   `json:"per_second,omitempty"`
	Lost       uint64    `json:"lost"`
	Calls      uint64    `json:"calls,omitempty"`
	Captured   uint64    `json:"captured,omitempty"`
	Sent       uint64    `json:"sent,omitempty"`
	Matched    uint64    `json:"matched,omitempty"`
	Wrong      uint64    `json:"wrong,omitempty"`
	Work       []float64 `json:"work,omitempty"`

	Left map[string]uint64 `json:"left,omitempty"`
}

func printCaptureJSON(w io.Writer, rows []bench.CaptureRow) error {
	encoder := json.NewEncoder(w)
	for _, r := range rows {
		if err := encoder.Encode(captureLine{
			r.Name, r.Absent, r.Off, r.On, r.Changes, r.Cores, r.AgentCores, r.PerSecond, r.Lost,
			r.Truth.Calls, r.Truth.Captured, r.Truth.Sent, r.Truth.Matched, r.Truth.Wrong, r.Work,
			r.Truth.Left,
		}); err != nil {
			return err
		}
	}
	return nil
}

func printCaptureTable(w io.Writer, rows []bench.CaptureRow, bars []proof.Bar) error {
	fmt.Fprintf(w, "%s\n\n%-13s %12s %12s %10s\n", thisMachine(), "row", "off", "on", "lost")
	for _, r := range rows {
		switch {
		case r.Absent != "":
			fmt.Fprintf(w, "%-13s not measured: %s\n", r.Name, r.Absent)
		case r.Name == "truth":
			fmt.Fprintf(w, "%-13s %s calls, %s captured; %s messages, %s matched\n", r.Name,
				command.Thousands(r.Truth.Calls), command.Thousands(r.Truth.Captured),
				command.Thousands(r.Truth.Sent), command.Thousands(r.Truth.Matched))
			for _, reason := range slices.Sorted(maps.Keys(r.Truth.Left)) {
				fmt.Fprintf(w, "%-13s %s not matched: %s\n", "",
					command.Thousands(r.Truth.Left[reason]), reason)
			}
		case r.Name == "agent-100000":
			fmt.Fprintf(w, "%-13s %.0f calls a second; %d lost\n", r.Name, r.PerSecond, r.Lost)
		default:
			unit := "/s"
			if r.Name == "ping-pong" || r.Name == "flood" {
				unit = "ns"
			}
			fmt.Fprintf(w, "%-13s %10.0f%s %10.0f%s %10d\n", r.Name, r.Off, unit, r.On, unit,
				r.Lost)
		}
	}
	fmt.Fprintf(w, "\n%-36s %10s  %-20s %8s\n", "", "", "from – to", "limit")
	for _, b := range bars {
		if b.Absent == "" {
			fmt.Fprintf(w, "%-36s %10.3g  %8.3g – %-9.3g ≤ %-6g %s %s\n", b.Name, b.Figure,
				b.Spread[0], b.Spread[1], b.Limit, b.Unit, b.Verdict())
		}
	}
	return nil
}
