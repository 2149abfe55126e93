package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/bench"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

type benchStoreFlags struct {
	json        bool
	repetitions int
	limit       time.Duration
	sustained   time.Duration
	buffer      string
	dir         string
	logs        string
	sets        []string
}

func newBenchStore() *cobra.Command {
	var flags benchStoreFlags
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Measure the size and the speed of logs, and logging that never pauses",
		Long: `Measure the size and the speed of logs, and logging that never pauses.

Each row is a data set GAPS/IDS/QUANTUM: the times between events, the kind of their ids, and the
step of the counter. One thread encodes two million events into a log in shared memory and reads
them back. Its processor time is measured. The entropy of the events is computed from the
distributions from which they were drawn. That of the set loop is measured over ten million events.

In the last row, a program logs at full speed on one core, with policy block, while another core
compresses the events and writes them to disk. The row shows the cost of a call, as a ratio to a
bare rdtscp that is measured every second, and the number of dropped events. A second does not count
if other processes took more than a tenth of a core.

Exit code 3: fewer than 5 repetitions or seconds counted, or a row could not be measured here.`,
		Example: `  cp-bench store
  cp-bench store --sets loop/seq/q1,bursts/random/q26 --sustained 0
  cp-bench store --json | jq -r '[.name, .bytes_per_event, .entropy_bytes] | @tsv'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runBenchStore(cmd.Context(), flags, cmd.Flags().Changed,
				cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&flags.json, "json", false, "print one JSON object a line")
	cmd.Flags().IntVar(&flags.repetitions, "repetitions", 7,
		"repetitions of the data sets, a few seconds each")
	cmd.Flags().DurationVar(&flags.limit, "limit", time.Minute,
		"begin no repetition, and no second of the last row, after this time")
	cmd.Flags().DurationVar(&flags.sustained, "sustained", 10*time.Second,
		"seconds of the last row that must count; 0 leaves it out")
	cmd.Flags().StringVar(&flags.buffer, "buffer", "",
		"memory of the last row's channel, such as 16MiB (default 1MiB, as for any channel)")
	cmd.Flags().StringVar(&flags.dir, "rings", "",
		"directory for rings and for logs in memory "+
			"(default $CLOUDPROFILER_DIR, else one of this user's in /dev/shm)")
	cmd.Flags().StringVar(&flags.logs, "logs", "",
		"directory for the log of the last row (default a temporary one)")
	cmd.Flags().StringSliceVar(&flags.sets, "sets", nil, "data sets to measure (default all)")
	return cmd
}

func runBenchStore(ctx context.Context, flags benchStoreFlags, given func(string) bool,
	stdout, stderr io.Writer) error {
	if flags.repetitions < minCounted {
		return command.Usagef("--repetitions %d: a figure needs %d or more",
			flags.repetitions, minCounted)
	}
	if flags.sustained != 0 && flags.sustained < minCounted*time.Second {
		return command.Usagef("--sustained %s: a figure needs %d seconds or more",
			flags.sustained, minCounted)
	}
	size, err := proof.Wanted()
	if err != nil {
		return err
	}
	switch {
	case size == proof.Full && !given("limit"):
		flags.limit = 5 * time.Minute
	case size == proof.Small:
		if !given("repetitions") {
			flags.repetitions = minCounted
		}
		if !given("limit") {
			flags.limit = smallLimit
		}
		if !given("sustained") {
			flags.sustained = minCounted * time.Second
		}
	}
	line := command.NewProgress(stderr)
	result, err := bench.Store(ctx, bench.StoreOptions{
		Repetitions: flags.repetitions, Limit: flags.limit,
		Sustained: flags.sustained, Buffer: flags.buffer,
		Dir: flags.dir, Logs: flags.logs, Sets: flags.sets,
		Progress: func(part string, counted, disturbed int) {
			line.Show("%s: %d counted, %d disturbed by other processes", part, counted, disturbed)
		},
	})
	line.Done()
	if err != nil {
		return err
	}
	bars := storeBars(result, flags.sustained != 0)
	return answer(bars, func() error {
		if flags.json {
			return printStoreJSON(stdout, result, flags.sustained != 0)
		}
		return printStoreTable(stdout, result, bars, flags.sustained != 0)
	})
}

// These are the limits of the rows. Some data sets have no limit of speed, but their speed is
// measured, too.
const (
	sizeFactor     = 1.15 // × the entropy
	loopSpeed      = 3.0  // GB/s of records
	seqSpeed       = 2.0
	hurriedSpeed   = 2.0
	sustainedLimit = 1.25 // × a bare rdtscp
)

// speedLimit returns the lowest speed at which a data set must be coded and decoded. 0 means no
// limit.
func speedLimit(name string) float64 {
	switch {
	case strings.HasPrefix(name, "loop/seq/"):
		return loopSpeed
	case strings.Contains(name, "/seq/"):
		return seqSpeed
	}
	return 0
}

func storeBars(result bench.StoreResult, withSustained bool) []proof.Bar {
	var bars []proof.Bar
	for _, row := range result.Rows {
		bars = append(bars, proof.Bar{
			Name: row.Name + " size", Figure: row.BytesPerEvent, Unit: "bytes an event",
			Limit: sizeFactor * row.EntropyBytes, Timing: true,
		})
		limit := speedLimit(row.Name)
		speed := proof.Bar{Limit: hurriedSpeed, AtLeast: true, Unit: "GB/s", Timing: true}
		speed.Name = row.Name + " hurried"
		bars = append(bars, barOf(speed, row.Hurried, 0, ""))
		if limit == 0 {
			continue
		}
		speed.Limit = limit
		speed.Name = row.Name + " encode"
		bars = append(bars, barOf(speed, row.Encode, 0, ""))
		speed.Name = row.Name + " decode"
		bars = append(bars, barOf(speed, row.Decode, 0, ""))
	}
	if !withSustained {
		return bars
	}
	s := result.Sustained
	bar := proof.Bar{Name: "sustained", Limit: sustainedLimit, Unit: "× bare rdtscp", Timing: true}
	bar = barOf(bar, s.Ratios, s.Disturbed, "")
	if s.Events == 0 {
		bar.Absent = "this process may use 1 core"
		return append(bars, bar)
	}
	missing := float64(s.Events) - float64(s.Logged) - float64(s.Dropped)
	return append(bars, bar,
		proof.Bar{Name: "sustained dropped", Figure: float64(s.Dropped),
			Unit: "events", Timing: true},
		proof.Bar{Name: "sustained not in the log", Figure: missing, Unit: "events"})
}

func printStoreTable(w io.Writer, result bench.StoreResult, bars []proof.Bar,
	withSustained bool) error {
	fmt.Fprintf(w, "%s\n\n", thisMachine())
	verdicts := map[string]proof.Verdict{}
	for _, bar := range bars {
		verdicts[bar.Name] = bar.Verdict()
	}
	fmt.Fprintf(w, "%-26s %9s %9s %9s %9s %9s %9s  %s\n", "data set", "bytes", "entropy",
		"encode", "decode", "hurried", "bytes", "limits")
	for _, row := range result.Rows {
		fmt.Fprintf(w, "%-26s %9.3f %9.3f %9.2f %9.2f %9.2f %9.3f  %s\n",
			row.Name, row.BytesPerEvent, row.EntropyBytes, median(row.Encode), median(row.Decode),
			median(row.Hurried), row.HurriedBytesPerEvent, limitsOf(row.Name, verdicts))
	}
	fmt.Fprintf(w, "\nbytes and entropy: size of one event in a log, in bytes; "+
		"in memory it has 16\nencode and decode: medians, in GB of memory a second\n"+
		"hurried: speed of encoding while the ring fills up, and the bytes of an event then\n")
	if s := result.Sustained; withSustained && s.Events > 0 {
		fmt.Fprintf(w, "sustained, ring %s: %.3f × bare rdtscp (≤ %g) %s; %.1f ns a call; "+
			"%d of %d events dropped; %.2f bytes an event; "+
			"%d seconds, %d disturbed ones left out\n",
			cmp.Or(s.Buffer, "1MiB"), median(s.Ratios), sustainedLimit, verdicts["sustained"],
			median(s.NS), s.Dropped, s.Events, s.BytesPerEvent, len(s.Ratios), s.Disturbed)
	}
	return nil
}

// limitsOf says that all limits of a data set were met, or which of them were not.
func limitsOf(set string, verdicts map[string]proof.Verdict) string {
	var others []string
	for _, limit := range []string{"size", "hurried", "encode", "decode"} {
		if v, has := verdicts[set+" "+limit]; has && v != proof.Reached {
			others = append(others, fmt.Sprintf("%s %s", limit, v))
		}
	}
	if len(others) == 0 {
		return string(proof.Reached)
	}
	return strings.Join(others, ", ")
}

// storeLine is a row of "cp-bench store --json". Scripts read it: append only.
type storeLine struct {
	Name           string   `json:"name"`
	GBPerSEncode   *float64 `json:"gb_per_s_encode,omitempty"`
	GBPerSDecode   *float64 `json:"gb_per_s_decode,omitempty"`
	BytesPerEvent  *float64 `json:"bytes_per_event,omitempty"`
	EntropyBytes   *float64 `json:"entropy_bytes,omitempty"`
	RatioToCounter *float64 `json:"ratio_to_counter,omitempty"`
	NSPerOp        *float64 `json:"ns_per_op,omitempty"`
	Events         *uint64  `json:"events,omitempty"`
	Dropped        *uint64  `json:"dropped,omitempty"`
	Logged         *uint64  `json:"logged,omitempty"`
	Reps           int      `json:"reps"`
	Disturbed      int      `json:"disturbed"`
	GBPerSHurried  *float64 `json:"gb_per_s_hurried,omitempty"`
	HurriedBytes   *float64 `json:"hurried_bytes_per_event,omitempty"`
}

func printStoreJSON(w io.Writer, result bench.StoreResult, withSustained bool) error {
	encoder := json.NewEncoder(w)
	for _, row := range result.Rows {
		line := storeLine{
			Name: row.Name, Reps: len(row.Encode),
			BytesPerEvent: &row.BytesPerEvent, EntropyBytes: &row.EntropyBytes,
		}
		if len(row.Encode) > 0 {
			encode, decode, hurried := median(row.Encode), median(row.Decode), median(row.Hurried)
			line.GBPerSEncode, line.GBPerSDecode, line.GBPerSHurried = &encode, &decode, &hurried
			line.HurriedBytes = &row.HurriedBytesPerEvent
		}
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	if !withSustained {
		return nil
	}
	s := result.Sustained
	line := storeLine{
		Name: "sustained", Events: &s.Events, Dropped: &s.Dropped, Logged: &s.Logged,
		BytesPerEvent: &s.BytesPerEvent, Reps: len(s.Ratios), Disturbed: s.Disturbed,
	}
	if len(s.Ratios) > 0 {
		ratio, ns := median(s.Ratios), median(s.NS)
		line.RatioToCounter, line.NSPerOp = &ratio, &ns
	}
	return encoder.Encode(line)
}
