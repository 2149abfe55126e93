package command

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/ring"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// The completions of a shell come from files and servers that may be hostile. So only valid names
// are offered. A file or server that cannot be read adds no names, and causes no error, because a
// shell does not show errors.

// CompleteRuns offers the runs of this machine, for at most the given number of a command's
// arguments. If no run matches, the shell offers files.
func CompleteRuns(most int) cobra.CompletionFunc {
	return completeRuns(most, func(string) []string { return LocalRuns() })
}

// CompleteRunLists does what CompleteRuns does, for arguments that may each be several runs with
// commas between them.
func CompleteRunLists(most int) cobra.CompletionFunc {
	return completeRuns(most, func(typed string) []string { return afterComma(LocalRuns(), typed) })
}

func completeRuns(most int, offer func(typed string) []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) (
		[]string, cobra.ShellCompDirective,
	) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return Matching(offer(typed), typed), cobra.ShellCompDirectiveDefault
	}
}

// LocalRuns returns the names of the runs in RunsDir.
func LocalRuns() (names []string) {
	entries, _ := os.ReadDir(RunsDir())
	for _, e := range entries {
		if runs.CheckName(e.Name()) == nil && runExists(filepath.Join(RunsDir(), e.Name())) {
			names = append(names, e.Name())
		}
	}
	return names
}

// CompleteFromRun offers values for a flag. The values come from the run that the first argument
// names, or from the first run if this argument names several. If several is true, the flag takes
// several values, and the value after the last comma is completed.
func CompleteFromRun(several bool, of func(*runs.Directory) []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) (
		[]string, cobra.ShellCompDirective,
	) {
		const no = cobra.ShellCompDirectiveNoFileComp
		if len(args) == 0 {
			return nil, no
		}
		run, err := OpenRun(args[0])
		if first, _, found := strings.Cut(args[0], ","); err != nil && found {
			run, err = OpenRun(first)
		}
		if err != nil {
			return nil, no
		}
		defer run.Close()
		values := of(run)
		if several {
			values = afterComma(values, typed)
		}
		return Matching(values, typed), no
	}
}

// CompleteValues offers fixed values for a flag that takes several of them.
func CompleteValues(values []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return Matching(afterComma(values, typed), typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteEdges offers edges between the points of the run in the first argument: first a point and
// a colon, then the other point.
func CompleteEdges(cmd *cobra.Command, args []string, typed string) (
	[]string, cobra.ShellCompDirective,
) {
	from, _, second := strings.Cut(typed[strings.LastIndexByte(typed, ',')+1:], ":")
	edges, directive := CompleteFromRun(true, func(run *runs.Directory) (edges []string) {
		for _, p := range pointsOf(run) {
			switch {
			case !second:
				edges = append(edges, p+":")
			case p != from:
				edges = append(edges, from+":"+p)
			}
		}
		return edges
	})(cmd, args, typed)
	if !second {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	return edges, directive
}

// pointsOf returns the points of a run: its channels without their instances.
func pointsOf(run *runs.Directory) (points []string) {
	for _, c := range run.Channels() {
		if name, err := channel.ParseName(c); err == nil {
			points = append(points, name.Actor+"/"+name.Point)
		}
	}
	return points
}

// afterComma completes a list of values with commas, of which a user has typed a part. Each list
// that it returns begins with the typed values before the last comma, and ends with a value that
// the user has not typed yet.
func afterComma(values []string, typed string) (lists []string) {
	before := typed[:strings.LastIndexByte(typed, ',')+1]
	chosen := strings.Split(before, ",")
	for _, v := range values {
		if !slices.Contains(chosen, v) {
			lists = append(lists, before+v)
		}
	}
	return lists
}

// NodesOf returns the names of a run's nodes.
func NodesOf(run *runs.Directory) (names []string) {
	for _, n := range run.Run.Nodes {
		names = append(names, n.Name)
	}
	return names
}

// RingChannels returns the names of the channels that have rings in a directory. If dir is empty,
// it uses the default directory.
func RingChannels(dir string) (names []string) {
	if dir == "" {
		dir = ring.DefaultDirectory()
	}
	files, _ := ring.Files(dir)
	for _, f := range files {
		stem := strings.TrimSuffix(filepath.Base(f), filepath.Ext(f))
		stem = strings.TrimSuffix(stem, filepath.Ext(stem)) // remove the incarnation
		if name, err := channel.ParseFileStem(stem); err == nil {
			names = append(names, name.String())
		}
	}
	return names
}

// Matching returns the names that begin with what was typed, sorted, each once.
func Matching(names []string, typed string) (matching []string) {
	for _, n := range names {
		if strings.HasPrefix(n, typed) {
			matching = append(matching, n)
		}
	}
	slices.Sort(matching)
	return slices.Compact(matching)
}

// CompleteFlag gives a flag of a command its completions.
func CompleteFlag(cmd *cobra.Command, flag string, of cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, of); err != nil {
		panic(err) // the command does not have this flag
	}
}

// CompleteChannels offers the channels that have rings on this machine. It offers them for at most
// the given number of arguments. dir is the value of the flag that sets the directory of the rings.
// The last argument says what the shell offers if no channel matches.
func CompleteChannels(dir *string, most int,
	otherwise cobra.ShellCompDirective) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) (
		[]string, cobra.ShellCompDirective,
	) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return Matching(RingChannels(*dir), typed), otherwise
	}
}
