package answers

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// listWidth is the largest width of a list of names in an error, in characters.
const listWidth = 400

// checkChosen fails if a run has no log, none of the chosen nodes, or none of the chosen channels.
// It is called before anything is analyzed or written. If some of the chosen names exist,
// checkChosen does not fail. The answer then lists the names that do not exist.
func checkChosen(dir *runs.Directory, chosen *analysis.Filter) error {
	nodes, channels := command.NodesOf(dir), dir.Channels()
	fails := func(why string, names []string) error {
		return fmt.Errorf("run %q: %s: use one of %s", dir.Run.Name, why,
			shorten(strings.Join(names, ", "), listWidth))
	}
	switch {
	case len(nodes) == 0: // the analysis reports that
		return nil
	case len(channels) == 0:
		why := ""
		for _, m := range dir.Run.Missing {
			why += "; " + m.String()
		}
		return fmt.Errorf("run %q: it has no log of its nodes %s%s", dir.Run.Name,
			strings.Join(nodes, ", "), shorten(why, listWidth))
	case chooseNone(chosen.Nodes, nodes, func(name, node string) bool { return name == node }):
		return fails("it has no node "+quoted(chosen.Nodes), nodes)
	case chooseNone(chosen.Channels, channels, channel.MatchName):
		return fails("it has no log of channel "+quoted(chosen.Channels), channels)
	}
	return nil
}

// chooseNone reports whether there are patterns, but none of them matches any of the names.
func chooseNone(patterns, names []string, chooses func(pattern, name string) bool) bool {
	return len(patterns) > 0 && !slices.ContainsFunc(patterns, func(p string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return chooses(p, name) })
	})
}

func quoted(names []string) string {
	var all []string
	for _, n := range names {
		all = append(all, strconv.Quote(n))
	}
	return strings.Join(all, " or ")
}

// errOnlyMessages is returned for a run without tuples in which messages were captured.
var errOnlyMessages = errors.New("no program logged tuples, only captured messages are there: " +
	"cprof analyze shows them")

// needAnswer fails if an answer is about nothing: no tuple was chosen, or no log could be read.
func needAnswer(a *analysis.Answer, dir *runs.Directory, chosen *analysis.Filter) error {
	if a.Work.Tuples > 0 || a.Length != nil || len(a.Counters) > 0 {
		return nil
	}
	switch flags := flagsOf(chosen); {
	case flags != "":
		return fmt.Errorf("run %q: it has no tuple for %s: %s", dir.Run.Name, flags,
			listChoices(a, dir, chosen))
	case len(a.Channels) == 0 && slices.Contains(dir.Channels(), blackbox.Channel):
		return fmt.Errorf("run %q: %w", dir.Run.Name, errOnlyMessages)
	case len(a.Channels) == 0:
		return fmt.Errorf("run %q: none of its logs can be read: \"cprof log check\" says why",
			dir.Run.Name)
	}
	return nil
}

// flagsOf returns the flags that chose a part of a run.
func flagsOf(f *analysis.Filter) string {
	var flags []string
	for _, n := range f.Nodes {
		flags = append(flags, "--node "+n)
	}
	for _, c := range f.Channels {
		flags = append(flags, "--channel "+c)
	}
	for _, id := range f.IDs {
		text := fmt.Sprintf("--id %d", id[0])
		if id[1] != id[0] {
			text += fmt.Sprintf("-%d", id[1])
		}
		flags = append(flags, text)
	}
	for _, end := range []struct {
		flag   string
		cycles uint64
		utc    int64
	}{{"from", f.From_cycles, f.From_utc_ns}, {"to", f.To_cycles, f.To_utc_ns}} {
		switch {
		case end.utc != 0 && end.utc != math.MaxInt64:
			flags = append(flags, "--"+end.flag+" "+utcText(end.utc))
		case end.cycles != 0 && end.cycles != math.MaxUint64:
			flags = append(flags, fmt.Sprintf("--%s %d", end.flag, end.cycles))
		}
	}
	return strings.Join(flags, " and ")
}

func utcText(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }

// listChoices lists, for each flag that was given, what the user can choose in this run.
func listChoices(a *analysis.Answer, dir *runs.Directory, chosen *analysis.Filter) string {
	var has []string
	if len(chosen.Nodes) > 0 {
		has = append(has, "it has the nodes "+strings.Join(command.NodesOf(dir), ", "))
	}
	if len(chosen.Channels) > 0 {
		has = append(has, "it has the channels "+strings.Join(dir.Channels(), ", "))
	}
	if len(chosen.IDs) > 0 {
		has = append(has, `"cprof log dump" prints its ids`)
	}
	if b := a.Bins; chosen.To_cycles != 0 && b.Count > 0 {
		has = append(has, fmt.Sprintf("its time axis is from %d to %d cycles of node %s",
			b.From_cycles, uint64(b.From_cycles)+b.Width_cycles*uint64(b.Count), a.Reference.Node))
	}
	if r := &dir.Run; chosen.To_utc_ns != 0 && !r.Begun.IsZero() && !r.Ended.IsZero() {
		has = append(has, fmt.Sprintf("it lasted from %s to %s", utcText(r.Begun.Lo_ns),
			utcText(r.Ended.Hi_ns)))
	}
	if len(has) == 0 {
		return "choose more"
	}
	return shorten(strings.Join(has, "; "), listWidth)
}
