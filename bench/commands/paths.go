package commands

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/bench"
	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
	"github.com/cloudprofiler/cloudprofiler/internal/callgen"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

type benchPathsFlags struct {
	json     bool
	format   string
	methods  []string
	speed    float64
	shift    time.Duration
	seed     uint64
	apps     []string
	rate     float64
	requests int
	stream   bool
	window   int
	trees    int
	rank     string
}

func newBenchPaths() *cobra.Command {
	var flags benchPathsFlags
	cmd := &cobra.Command{
		Use:   "paths [FILE|DIRECTORY...]",
		Short: "Measure how well causes of messages are found, in traces with known causes",
		Long: `Measure how well causes of messages are found, in traces with known causes.

The files contain traces that other programs recorded. The methods see only what a capture of
messages would see: which program called which other, and when. They see neither the parents of
spans nor the names of operations. Without files, the command makes traces of imagined
applications.

  links     calls whose most probable cause is the true one
  paths     paths of which all links are right, and to which no other call is linked
  said      links with a probability of 0.9 or more, and how many of them are wrong
  sure      links with a probability of 0.99 or more, and how many of them are wrong
  error     expected calibration error: how far probabilities are from the share of right links
  chance    the error that right probabilities would have on average, because links are not many
  us        processor time of a message, in microseconds

With --shift, the methods link the calls twice: with shifted clocks, and as they are. The table is
about the shifted clocks, and has two more columns:

  changed   links whose most probable cause is another one than without the shift
  said      those of them that are said with the shift or without it

If the data lack the parent of a call, the call is linked, but the link is not judged.

With --trees, the command prints the patterns of WAP5 instead, the highest rank first. A tree is
one explanation of what a message led to, and trees of the same form are one pattern. Ranks are

  count        number of trees
  expectation  sum of the trees' probabilities
  confidence   expectation, divided by the number of trees
  repetition   expectation, divided by the square root of this number

With --stream, the product's method gets one call after the other, and keeps only a few windows of
calls. If there are no files, the command then makes the calls while it links them, so any number of
--requests fits into the memory. Two more columns say how many calls the method kept at most, and
how many MB the whole process had at most. (Calls from files are read before the first is linked.)`,
		Example: `  cp-bench paths
  cp-bench paths --app hotel --rate 1000
  cp-bench paths --app random-1,random-2 --rate 20
  cp-bench paths --format jaeger traces/ --speed 10 --shift 10ms
  cp-bench paths --format otlp spans.jsonl.gz --json
  cp-bench paths --stream --app hotel --requests 1428571`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runBenchPaths(flags, args, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&flags.json, "json", false, "print one JSON object a line")
	cmd.Flags().StringVar(&flags.format, "format", string(calls.Jaeger),
		"format of the files: jaeger or otlp, as JSON; otlp also as protocol buffers")
	cmd.Flags().BoolVar(&flags.stream, "stream", false,
		"link calls while they come, in memory that does not grow with their number")
	cmd.Flags().IntVar(&flags.window, "window", 0, "calls in a window of --stream (default 6000)")
	cmd.Flags().IntVar(&flags.trees, "trees", 0,
		"print this many patterns of WAP5's trees, and judge nothing")
	cmd.Flags().StringVar(&flags.rank, "rank", "expectation",
		"which patterns of --trees come first: "+strings.Join(rankNames(), ", "))
	cmd.Flags().StringSliceVar(&flags.methods, "methods", nil, "methods to judge (default all)")
	cmd.Flags().Float64Var(&flags.speed, "speed", 1,
		"let paths begin closer together, by this factor")
	cmd.Flags().DurationVar(&flags.shift, "shift", 0,
		"shift the clock of each program by a random offset, at most this")
	cmd.Flags().Uint64Var(&flags.seed, "seed", 1, "seed of offsets and of made traces")
	cmd.Flags().StringSliceVar(&flags.apps, "app", nil,
		"applications of which to make traces (default all): "+strings.Join(appNames(), ", ")+
			", or random-N, where the number N decides what is invented")
	cmd.Flags().Float64Var(&flags.rate, "rate", 150, "requests a second in made traces")
	cmd.Flags().IntVar(&flags.requests, "requests", 2000, "requests in made traces")
	return cmd
}

func appNames() []string { return slices.Sorted(maps.Keys(callgen.Apps)) }

// appNamed returns an application by its name. A name such as random-7 stands for an invented
// application.
func appNamed(name string) (callgen.App, bool) {
	if number, is := strings.CutPrefix(name, "random-"); is {
		seed, err := strconv.ParseUint(number, 10, 64)
		return callgen.Random(seed), err == nil
	}
	app, ok := callgen.Apps[name]
	return app, ok
}

func runBenchPaths(flags benchPathsFlags, files []string, stdout io.Writer) error {
	for name, n := range map[string]float64{"--speed": flags.speed, "--rate": flags.rate,
		"--requests": float64(flags.requests)} {
		if !(n > 0) {
			return command.Usagef("%s %g: give a number above 0", name, n)
		}
	}
	if flags.shift < 0 || flags.window < 0 || flags.trees < 0 {
		return command.Usagef("--shift %v, --window %d, --trees %d: none may be negative",
			flags.shift, flags.window, flags.trees)
	}
	if link.Ranks[flags.rank] == nil {
		return command.Usagef("--rank %q: use one of %s", flags.rank,
			strings.Join(rankNames(), ", "))
	}
	if flags.trees > 0 && (flags.stream || flags.json) {
		return command.Usagef("--trees %d: give neither --stream nor --json", flags.trees)
	}
	if flags.window > 0 && !flags.stream {
		return command.Usagef("--window %d: give --stream, too", flags.window)
	}
	var methods []link.Method
	var names []string
	for _, m := range link.Methods {
		names = append(names, m.Name())
		if len(flags.methods) == 0 || slices.Contains(flags.methods, m.Name()) {
			methods = append(methods, m)
		}
	}
	for _, m := range flags.methods {
		if !slices.Contains(names, m) {
			return command.Usagef("--methods %q: use some of %s", m, strings.Join(names, ", "))
		}
	}
	if len(files) > 0 {
		set, err := calls.Read(calls.Format(flags.format), files...)
		if err != nil {
			return err
		}
		return judgePaths(flags, methods, strings.Join(files, " "), set, stdout)
	}
	if len(flags.apps) == 0 {
		flags.apps = appNames()
	}
	for _, name := range flags.apps {
		app, ok := appNamed(name)
		if !ok {
			return command.Usagef("--app %q: use some of %s, random-N", name,
				strings.Join(appNames(), ", "))
		}
		o := callgen.Options{Requests: flags.requests, PerSecond: flags.rate, Seed: flags.seed}
		if flags.stream && flags.shift == 0 {
			parts := callgen.Parts(app, o, flags.speed)
			if err := streamPaths(flags, name, parts, stdout); err != nil {
				return err
			}
			continue
		}
		set := callgen.Make(app, o)
		if err := judgePaths(flags, methods, name, set, stdout); err != nil {
			return err
		}
	}
	return nil
}

const nothingJudged = "no link can be judged: no call's cause is in the data\n\n"

// pathsLine is a line of "cp-bench paths --json". Scripts read it: append only.
type pathsLine struct {
	Data  string `json:"data"`
	Calls int    `json:"calls"`
	bench.PathsRow
	Oddities calls.Oddities `json:"oddities"`
}

func judgePaths(flags benchPathsFlags, methods []link.Method, name string, set *calls.Set,
	stdout io.Writer) error {
	if flags.speed != 1 {
		callgen.Compress(set, flags.speed)
	}
	shift_ns := flags.shift.Nanoseconds()
	if (flags.stream || flags.trees > 0) && shift_ns > 0 {
		callgen.ShiftClocks(set, shift_ns, flags.seed)
	}
	if flags.trees > 0 {
		return printTrees(flags, name, set, stdout)
	}
	if flags.stream {
		one := func(yield func(*calls.Set) bool) { yield(set) }
		return streamPaths(flags, name, one, stdout)
	}
	var rows []bench.PathsRow
	if shift_ns > 0 {
		rows = bench.ShiftedPaths(set, methods, shift_ns, flags.seed)
	} else {
		rows = bench.Paths(set, methods)
	}
	if flags.json {
		e := json.NewEncoder(stdout)
		for _, r := range rows {
			err := e.Encode(pathsLine{name, len(set.Calls), r, set.Oddities})
			if err != nil {
				return err
			}
		}
		return nil
	}
	fmt.Fprintf(stdout, "%s: %s between %s, %s\n", name, command.Plural(len(set.Calls), "call"),
		command.Plural(len(set.Places), "program"), command.Plural(set.Paths, "path"))
	if text := oddText(&set.Oddities); text != "" {
		fmt.Fprintln(stdout, text)
	}
	if len(rows) > 0 && rows[0].Links == 0 {
		_, err := fmt.Fprint(stdout, nothingJudged)
		return err
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := "method\tlinks\tpaths\tsaid\twrong\tsure\twrong\terror\tchance\tus\t"
	if shift_ns > 0 {
		head += "changed\tsaid\t"
	}
	fmt.Fprintln(w, head)
	for i := range rows {
		writeRow(w, &rows[i])
		if r := &rows[i]; r.Changed != nil {
			fmt.Fprintf(w, "%d\t%d\t", *r.Changed, *r.SaidChanged)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
	return w.Flush()
}

// streamLine is a line of "cp-bench paths --stream --json". Scripts read it: append only.
type streamLine struct {
	Data string `json:"data"`
	bench.StreamRow
}

func streamPaths(flags benchPathsFlags, name string, sets iter.Seq[*calls.Set],
	stdout io.Writer) error {
	r := bench.StreamPaths(sets, flags.window)
	if flags.json {
		return json.NewEncoder(stdout).Encode(streamLine{name, r})
	}
	fmt.Fprintf(stdout, "%s: %d messages, %s\n", name, r.Messages,
		command.Plural(r.Paths, "path"))
	if r.Links == 0 {
		_, err := fmt.Fprint(stdout, nothingJudged)
		return err
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "method\tlinks\tpaths\tsaid\twrong\tsure\twrong\terror\tchance\tus\tkept\tMB\t")
	writeRow(w, &r.PathsRow)
	fmt.Fprintf(w, "%d\t%.0f\t\n\n", r.Kept, r.Memory_MB)
	return w.Flush()
}

func writeRow(w io.Writer, r *bench.PathsRow) {
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.4f\t%.4f\t%.2f\t", r.Method,
		share(r.Right, r.Links), share(r.PathsRight, r.Paths),
		share(r.Said, r.Links), share(r.SaidWrong, r.Said),
		share(r.Sure, r.Links), share(r.SureWrong, r.Sure), r.Calibration, r.Chance,
		r.MessageMicroseconds)
}

// oddText describes what was unusual in recorded traces.
func oddText(o *calls.Oddities) string {
	var all []string
	for _, odd := range []struct {
		n    int
		what string
	}{
		{o.Malformed, "that cannot be read, first: " + o.Why},
		{o.Duplicates, "left out because they occurred before"},
		{o.Impossible, "left out because of impossible times"},
		{o.Backwards, "that ended before they began"},
		{o.Parentless, "whose parent is missing: linked, not judged"},
		{o.Cycles, "that are their own ancestors: linked, not judged"},
	} {
		if odd.n > 0 {
			all = append(all, fmt.Sprintf("%d %s", odd.n, odd.what))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("of %s: %s", command.Plural(o.Spans, "span"), strings.Join(all, "; "))
}

func share(part, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f %%", 100*float64(part)/float64(of))
}
