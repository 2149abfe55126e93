package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/examples/demo"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// These are the bars of a soak.
//
// Memory: if a daemon wrongly keeps something for every tuple, it keeps at least an id or a
// pointer, which has 8 bytes. The bar is half of these 8 bytes: 4 bytes a tuple. In addition, the
// bar allows for the trains that daemons rightly keep. The coordinator keeps the newest trains of
// each pair (coordinator.Config.LiveTrains, or twice as many for a while). An agent keeps at most
// tscclient.Config.MaxTrains of the trains that it started. A train takes about 500 bytes, and
// about 500 more bytes wait for the garbage collector. A process of the job also runs a NATS
// server, whose memory takes longer to settle than a soak lasts, so the bar of such a process is
// higher. If the process wrongly kept the events that it logs, it would keep at least two events
// for each tuple, which take 32 bytes. The bar is half of these 32 bytes: 16 bytes a tuple.
//
// Bounds: a period's bound is a median over thousands of durations. The bound depends on the trains
// of the surrounding ten seconds. Other load may delay these trains, so the bound of a period may
// be up to 1.5 times the bound of the median period. The bound of the soak's second half must not
// be more than a tenth wider than the bound of its first half.
const (
	soakDaemon_bytes  = 4 // bytes that a daemon may keep of a tuple
	soakProgram_bytes = 16
	soakTrain_bytes   = 1000
	soakWorst         = 1.5
	soakDrift         = 1.1
)

// soakSettled is the shortest time for which growth is watched, because heaps take the first
// minutes of a soak to reach their size.
const soakSettled = 20 * time.Minute

// soakSmall is long enough to see that everything works. It shows nothing about growth.
const soakSmall = 30 * time.Second

type benchSoakFlags struct {
	duration, every time.Duration
	perSecond       int
	load_mbit       int
	loopback        bool
	dir             string
	json            bool
}

func newBenchSoak() *cobra.Command {
	var flags benchSoakFlags
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Run the whole product for long, and watch its memory and its bounds",
		Long: `Run the whole product for long, and watch its memory and its bounds.

It runs the demonstration ("cprof demo") at a moderate rate for an hour: four virtual nodes with an
agent each, a coordinator, and the streaming job across them. The nodes exchange as many trains as
those of a fleet. Once in a period it notes each process's private memory, and how much disk the
logs take. At the end it collects all logs, accounts for every event, and compares every duration
with the truth.

The bars:
  memory   in the second half the coordinator and the agents grow by no more than 4 bytes a tuple,
           which is half of an id, and 1,000 bytes for each train that they keep; the job's
           processes, each with a NATS server, grow by no more than 16 bytes a tuple
  loss     nothing is lost, and nothing is outside of its bound
  bounds   a period's bound is the median bound of its durations between nodes; no period's bound
           is wider than 1.5 times the median of all periods, and the median of the second half
           is no wider than 1.1 times that of the first

The logs are in --dir and are removed at the end. They take some 300 MB for an hour.

Exit code 1: a duration did not contain the truth. Exit code 3: something was lost, a relation is
suspect, or the soak was too short to say whether memory grows.`,
		Example: `  cp-bench soak
  cp-bench soak --duration 2m --every 5s
  cp-bench soak --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if size, err := proof.Wanted(); err != nil {
				return err
			} else if size == proof.Small && !cmd.Flags().Changed("duration") {
				flags.duration, flags.every = soakSmall, soakSmall/10
			}
			return runBenchSoak(cmd.Context(), flags, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().DurationVar(&flags.duration, "duration", time.Hour,
		"send tuples for this time")
	cmd.Flags().DurationVar(&flags.every, "every", time.Minute, "how long a period is")
	cmd.Flags().IntVar(&flags.perSecond, "rate", 1000, "tuples to send in a second")
	cmd.Flags().IntVar(&flags.load_mbit, "load", 10,
		"megabits a second that one node sends another beside the job; 0 is none")
	cmd.Flags().BoolVar(&flags.loopback, "loopback", false,
		"put all nodes on the loopback interface, as happens without root")
	cmd.Flags().StringVar(&flags.dir, "dir", "",
		"directory in which to make one for the logs (default the one for temporary files)")
	cmd.Flags().BoolVar(&flags.json, "json", false, "print one JSON object")
	return cmd
}

func runBenchSoak(ctx context.Context, flags benchSoakFlags, stdout, stderr io.Writer) error {
	switch {
	case flags.duration < 10*time.Second || flags.duration > 24*time.Hour:
		return command.Usagef("--duration %v: give 10s to 24h", flags.duration)
	case flags.every < time.Second || flags.every > flags.duration:
		return command.Usagef("--every %v: give 1s to %v, the duration",
			flags.every, flags.duration)
	case flags.perSecond < 10 || flags.perSecond > 100_000:
		return command.Usagef("--rate %d: give 10 to 100000", flags.perSecond)
	case flags.load_mbit < 0 || flags.load_mbit > 100_000:
		return command.Usagef("--load %d: give 0 to 100000", flags.load_mbit)
	}
	if flags.dir == "" {
		flags.dir = os.TempDir()
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	ctx, release := demo.UntilClean(ctx)
	defer release()
	line := command.NewProgress(stderr)
	s, err := demo.RunSoak(ctx, demo.Options{
		Tuples:    int(flags.duration.Seconds() * float64(flags.perSecond)),
		PerSecond: flags.perSecond,
		LoadBytes: flags.load_mbit * 1e6 / 8,
		Loopback:  flags.loopback,
		Scratch:   flags.dir,
		Command:   demo.ProcessCommand(self),
		Progress:  func(step string) { line.Show("%s …", step) },
	}, flags.every)
	line.Done()
	if err != nil {
		return err
	}
	bars := soakBars(s)
	if err := proof.Describe(soakTable(s, true)); err != nil {
		return err
	}
	err = answer(bars, func() error {
		if flags.json {
			return printSoakJSON(stdout, s)
		}
		_, err := fmt.Fprintf(stdout, "%s\n\n%s\n", thisMachine(), soakTable(s, false))
		if err != nil {
			return err
		}
		for _, bar := range bars {
			fmt.Fprintln(stdout, bar)
		}
		return nil
	})
	if err != nil && !errors.Is(err, command.ErrPartial) {
		return err
	}
	checked, _, outside := s.Checked()
	return cmp.Or(demo.Failure(&s.Result, checked, outside), err)
}

// soakBars compares a soak with its bars.
func soakBars(s *demo.Soak) []proof.Bar {
	checked, _, outside := s.Checked()
	suspect := 0
	if !s.Consistent() {
		suspect = 1
	}
	bars := []proof.Bar{
		{Name: "durations checked against the truth", Figure: float64(checked),
			Limit: float64(10 * s.Tuples), AtLeast: true, Unit: "durations"},
		{Name: "outside of their bound", Figure: float64(outside), Unit: "durations"},
		{Name: "soaks with a relation that is not consistent", Figure: float64(suspect),
			Unit: "of one"},
		{Name: "tuples and events lost", Figure: float64(s.Lost), Unit: "events"},
	}
	for i, name := range s.Processes {
		bar := proof.Bar{
			Name:  "growth in the second half, " + name,
			Limit: soakGrowth_MB(s, name), Unit: "MB", Timing: true,
		}
		grown, ok := s.Growth_bytes(i)
		switch watched := time.Duration(len(s.Samples)) * s.Every; {
		case watched < soakSettled:
			bar.Absent = fmt.Sprintf("after %v memory still settles, it takes %v to say",
				watched, soakSettled)
		case !ok:
			bar.Absent = fmt.Sprintf("%d periods are too few to say", len(s.Samples))
		default:
			bar.Figure = grown / 1e6
		}
		bars = append(bars, bar)
	}
	worst := proof.Bar{
		Name:  "bound of the widest period",
		Limit: soakWorst, Unit: "× the median period's", Timing: true,
	}
	drift := proof.Bar{
		Name:  "bound of the second half",
		Limit: soakDrift, Unit: "× the first half's", Timing: true,
	}
	if len(s.Periods) < 2 {
		worst.Absent, drift.Absent = "one period is too few to say", "one period is too few to say"
	} else {
		worst.Figure, drift.Figure = s.Spread()
	}
	return append(bars, worst, drift)
}

// soakGrowth_MB returns the amount by which a process may grow in the second half.
func soakGrowth_MB(s *demo.Soak, process string) float64 {
	tuples := float64(s.SecondHalfTuples())
	trains := float64(s.Trains) * tuples / float64(s.Tuples)
	nodes := float64(len(s.Nodes))
	switch {
	case strings.HasPrefix(process, "job "):
		return soakProgram_bytes * tuples / 1e6
	case strings.HasPrefix(process, "agent "):
		trains /= nodes
	default: // the coordinator
		const most = 2 // times LiveTrains
		pairs := nodes * (nodes - 1) / 2
		trains = min(trains, most*pairs*float64(coordinator.DefaultConfig().LiveTrains))
	}
	return (soakDaemon_bytes*tuples + soakTrain_bytes*trains) / 1e6
}

// soakRow is the number of periods in one row of the table. In a soak of an hour, these periods
// together last five minutes.
const soakRow = 5

// soakTable shows the results over time. Each line is for a few periods. It shows memory and disk
// at the end of these periods, and bound and truth during them.
func soakTable(s *demo.Soak, markdown bool) string {
	var b strings.Builder
	row := func(cells ...string) {
		if markdown {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
			return
		}
		for _, c := range cells {
			fmt.Fprintf(&b, "%11s ", c)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%d tuples, %d trains, by time since the first tuple: "+
		"MB in memory of each process alone, MB on disk, the median bound of durations "+
		"between nodes, durations checked against the truth.\n\n", s.Tuples, s.Trains)
	head := append([]string{"after"}, s.Processes...)
	row(append(head, "disk", "± µs", "durations", "outside")...)
	if markdown {
		b.WriteString(strings.Repeat("|---", len(s.Processes)+5) + "|\n")
	}
	every := soakRow
	if len(s.Samples) < 2*soakRow {
		every = 1
	}
	for end := every; end <= min(len(s.Samples), len(s.Periods)); end += every {
		sample := s.Samples[end-1]
		cells := []string{(time.Duration(end) * s.Every).String()}
		for _, bytes := range sample.Private_bytes {
			cells = append(cells, fmt.Sprintf("%.1f", float64(bytes)/1e6))
		}
		cells = append(cells, fmt.Sprintf("%.1f", float64(sample.Disk_bytes)/1e6))
		durations, outside, bound := 0, 0, 0.0
		for _, p := range s.Periods[end-every : end] {
			durations += p.Durations
			outside += p.Outside
			bound += p.HalfWidth_cycles / float64(every)
		}
		cells = append(cells, fmt.Sprintf("%.3f", demo.Microseconds(&s.Result, bound)),
			fmt.Sprint(durations), fmt.Sprint(outside))
		row(cells...)
	}
	return b.String()
}

// soakLine is what "cp-bench soak --json" prints. Scripts read it: append only.
type soakLine struct {
	Tuples    int          `json:"tuples"`
	Lost      int          `json:"lost"`
	Checked   int          `json:"durations_checked"`
	Between   int          `json:"between_nodes"`
	Outside   int          `json:"outside"`
	Processes []string     `json:"processes"`
	Every_s   float64      `json:"every_s"`
	Samples   []soakSample `json:"samples"`
}

type soakSample struct {
	Private_bytes []int64 `json:"private_bytes"` // private memory of each process
	Disk_bytes    int64   `json:"disk_bytes"`
	HalfWidth_us  float64 `json:"half_width_us_median,omitempty"`
}

func printSoakJSON(w io.Writer, s *demo.Soak) error {
	l := soakLine{
		Tuples: s.Tuples, Lost: s.Lost, Processes: s.Processes, Every_s: s.Every.Seconds(),
	}
	l.Checked, l.Between, l.Outside = s.Checked()
	for i, sample := range s.Samples {
		line := soakSample{Private_bytes: sample.Private_bytes, Disk_bytes: sample.Disk_bytes}
		if i < len(s.Periods) {
			line.HalfWidth_us = demo.Microseconds(&s.Result, s.Periods[i].HalfWidth_cycles)
		}
		l.Samples = append(l.Samples, line)
	}
	return json.NewEncoder(w).Encode(l)
}
