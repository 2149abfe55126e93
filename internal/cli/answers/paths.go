package answers

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
	"github.com/cloudprofiler/cloudprofiler/blackbox/paths"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/similar"
	"github.com/cloudprofiler/cloudprofiler/report"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

func newPaths() *cobra.Command {
	var flags analyzeFlags
	var most int
	var which pathFlags
	var asJSON bool
	var output string
	cmd := &cobra.Command{
		Use:   "paths RUN",
		Short: "Say which calls requests led to, from captured messages",
		Long: `Say which calls requests led to, from captured messages. RUN is a run, as for cprof
analyze, in which messages were captured (cprof capture).

A call is a request that one program sends to another, and its response. No message says which
request a call belongs to. So the command infers this link from the moments of the messages, and
gives its probability. A call without a cause begins a path. Paths with equal trees follow one
pattern. The pattern that took the most time comes first.

Each line of a pattern is a call: the probability of the link to the call above it, the called
program, and the shares of the requests' time in this program and in the network, each with the
median of one call. Then follow the slowest paths. docs/paths.md says how to read a probability.

The flags --program, --longer, --message and --doubtful choose paths. cprof export --paths writes
paths for other programs.

Exit code 1: there is no such path. Exit code 3: the paths are printed, and parts of the run are
missing: paths may lack calls.`,
		Example: `  cprof paths tuesday
  cprof paths tuesday --program redis-server --longer 50ms
  cprof paths tuesday --json | jq '.patterns[0].whole'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := which.check(); err != nil {
				return err
			}
			if asJSON && output != "" {
				return command.Usagef("--json and --page: choose one")
			}
			if most < 1 {
				return command.Usagef("--most %d: give 1 or more", most)
			}
			o, err := flags.options()
			if err != nil {
				return err
			}
			dir, err := command.OpenRun(args[0])
			if err != nil {
				return err
			}
			defer dir.Close()
			answer, want, err := which.analyze(cmd, dir, o)
			if err != nil {
				return err
			}
			if want.Slowest = max(o.Slowest, 0); output != "" && !cmd.Flags().Changed("slowest") {
				want.Slowest = report.MaxTraces
			}
			found, err := paths.Of(dir, want)
			if err := which.chosen(dir, found, err); err != nil {
				return err
			}
			if output != "" {
				page, err := pageOf(dir, answer, &o, found)
				if err != nil {
					return err
				}
				if err := command.WriteWhole(output, page.Bytes()); err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), output)
				return lacking(answer, found)
			}
			stdout := cmd.OutOrStdout()
			if asJSON {
				encoder := json.NewEncoder(stdout)
				encoder.SetIndent("", " ")
				return errors.Join(encoder.Encode(found), lacking(answer, found))
			}
			if err := printPathAnswer(stdout, found, answer.Reference, most); err != nil {
				return err
			}
			printMissing(stdout, answer.Missing)
			return lacking(answer, found)
		},
	}
	flags.add(cmd)
	which.add(cmd)
	cmd.Flags().IntVar(&flags.slowest, "slowest", 1, "how many of the slowest paths to print")
	cmd.Flags().IntVar(&most, "most", 5, "how many patterns to print")
	cmd.Flags().StringVar(&output, "page", "", "write the run's report to this `file`, as "+
		"cprof report does, with these paths")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print everything as one JSON object")
	return cmd
}

func methodNames() (names []string) {
	for _, m := range link.Methods {
		names = append(names, m.Name())
	}
	return names
}

func methodOf(name string) (link.Method, error) {
	for _, m := range link.Methods {
		if m.Name() == name {
			return m, nil
		}
	}
	return nil, command.Usagef("--method %q: use one of %s", name,
		strings.Join(methodNames(), ", "))
}

// pathFlags choose paths.
type pathFlags struct {
	method, program, message string
	longer                   time.Duration
	doubtful                 bool
}

func (f *pathFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.program, "program", "", "only paths with a call from or to this "+
		"program, such as nginx or nginx:8080")
	cmd.Flags().DurationVar(&f.longer, "longer", 0, "only paths that took at least this long, "+
		"such as 50ms")
	cmd.Flags().StringVar(&f.message, "message", "", "only the path with the message that was "+
		"sent on this socket when the counter showed this: `SOCKET:CYCLES`, from_socket and "+
		"sent_lo in the exported table messages")
	cmd.Flags().BoolVar(&f.doubtful, "doubtful", false, "only paths with a link that is less "+
		"than 0.9 sure")
	cmd.Flags().StringVar(&f.method, "method", link.Methods[0].Name(),
		"method that finds causes: "+strings.Join(methodNames(), ", "))
	command.CompleteFlag(cmd, "method", command.CompleteValues(methodNames()))
}

// analyze analyzes an open run, and returns which paths the flags choose. The run need not have
// tuples: captured messages are enough.
func (f *pathFlags) analyze(cmd *cobra.Command, dir *runs.Directory, o analysis.Options) (
	answer *analysis.Answer, want paths.Options, err error) {
	answer, err = analyzeOpen(cmd.Context(), dir, o, cmd.ErrOrStderr())
	if err != nil && !errors.Is(err, errOnlyMessages) {
		return nil, want, err
	}
	want, err = f.options(answer.Reference, &o)
	return answer, want, err
}

// changed returns the name of the first flag about paths that the user gave.
func (f *pathFlags) changed(cmd *cobra.Command) string {
	for _, name := range []string{"program", "longer", "message", "doubtful", "method"} {
		if cmd.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

// options returns what the flags say.
func (f *pathFlags) options(r analysis.Reference, o *analysis.Options) (want paths.Options,
	err error) {
	want = paths.Options{Reference: r, Wander: o.Wander, ThirdNodes: o.ThirdNodes}
	if want.Method, err = methodOf(f.method); err != nil {
		return want, err
	}
	want.Filter, err = f.filter(r)
	return want, err
}

// check fails if a flag can have no effect in any run.
func (f *pathFlags) check() error {
	if _, err := methodOf(f.method); err != nil {
		return err
	}
	if f.longer < 0 {
		return command.Usagef("--longer %v: give a duration above 0, such as 50ms", f.longer)
	}
	_, err := f.messageID()
	return err
}

func (f *pathFlags) filter(r analysis.Reference) (filter paths.Filter, err error) {
	filter.Program, filter.Doubtful = f.program, f.doubtful
	if f.longer > 0 {
		if !(r.FrequencyLo_hz > 0) {
			return filter, fmt.Errorf("choose paths of at least %v: the run does not say how fast "+
				"the counter of node %q runs: leave out --longer", f.longer, r.Node)
		}
		cycles := f.longer.Seconds() * (r.FrequencyLo_hz/2 + r.FrequencyHi_hz/2)
		filter.Least = int64(min(cycles, math.MaxInt64/2)) // int64 would wrap beyond its range
	}
	filter.Message, err = f.messageID()
	return filter, err
}

// messageID returns the message that the user named, or nil.
func (f *pathFlags) messageID() (*paths.MessageID, error) {
	if f.message == "" {
		return nil, nil
	}
	socket, cycles, _ := strings.Cut(f.message, ":")
	var id paths.MessageID
	var err error
	if id.Socket, err = strconv.ParseUint(socket, 10, 64); err == nil {
		id.Sent_cycles, err = strconv.ParseUint(cycles, 10, 64)
	}
	if err != nil {
		return nil, command.Usagef("--message %q: give SOCKET:CYCLES, two numbers", f.message)
	}
	return &id, nil
}

// chosen returns an error if there is no path to tell about.
func (f *pathFlags) chosen(dir *runs.Directory, found *paths.Answer, err error) error {
	switch {
	case err != nil:
		return err
	case found == nil:
		return fmt.Errorf("run %q: no messages were captured: cprof capture start does that",
			dir.Run.Name)
	case found.Chosen > 0 || found.Requests == 0:
		return nil
	}
	all := count(uint64(found.Requests), "path")
	if isNone := !slices.ContainsFunc(found.Programs, func(name string) bool {
		return paths.IsNamed(name, f.program)
	}); isNone && f.program != "" {
		near, names := nearest(f.program, found.Programs)
		if near != "" {
			near = fmt.Sprintf("did you mean %q? ", near)
		}
		return fmt.Errorf("run %q: none of its %s has a call from or to --program %q: %s"+
			"use one of %s", dir.Run.Name, all, f.program, near,
			shorten(strings.Join(names, ", "), listWidth))
	}
	why := ""
	if f.message != "" {
		why = ": the message must be the first one of a request, or the last one of a response"
	}
	return fmt.Errorf("run %q: none of its %s is chosen by %s%s", dir.Run.Name, all, f.given(), why)
}

// given returns the flags that chose paths, as text.
func (f *pathFlags) given() string {
	var all []string
	if f.program != "" {
		all = append(all, "--program "+f.program)
	}
	if f.longer != 0 {
		all = append(all, "--longer "+f.longer.String())
	}
	if f.message != "" {
		all = append(all, "--message "+f.message)
	}
	if f.doubtful {
		all = append(all, "--doubtful")
	}
	return strings.Join(all, " and ")
}

// nearest returns the program that a misspelt name may mean, and all programs in the order in which
// they should be listed: first that one, then those that contain the name. The name may lack the
// port.
func nearest(name string, programs []string) (near string, sorted []string) {
	words := slices.Clone(programs)
	for _, p := range programs {
		if i := strings.LastIndexByte(p, ':'); i > 0 {
			words = append(words, p[:i])
		}
	}
	near = similar.Word(name, slices.Values(words))
	order := func(p string) int {
		switch {
		case near != "" && paths.IsNamed(p, near):
			return 0
		case strings.Contains(p, name):
			return 1
		}
		return 2
	}
	sorted = slices.Clone(programs)
	slices.SortStableFunc(sorted, func(a, b string) int { return cmp.Compare(order(a), order(b)) })
	return near, sorted
}
