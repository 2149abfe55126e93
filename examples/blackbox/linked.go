package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
	"github.com/cloudprofiler/cloudprofiler/blackbox/paths"
	"github.com/cloudprofiler/cloudprofiler/report"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// causeCount says, for one program, how many of its sent messages have a true cause, and how many
// causes were found. Said counts the causes with a probability of at least link.Said. Sure counts
// the causes with a probability of at least link.Sure.
type causeCount struct{ True, Right, Said, SaidWrong, Sure, SureWrong int }

// holdLinked compares the causes that were found in the run with the causes that services wrote
// down. If a message has several true causes, it is right to find any one of them.
func (t *testbed) holdLinked(run *runs.Directory, path string) error {
	type event struct {
		node           string
		socket, cycles uint64
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	truth, programs := map[event][]event{}, map[event]string{}
	t.linked = map[string]*causeCount{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var node, program, request string
		var sent, received event
		if _, err := fmt.Sscan(lines.Text(), &node, &program, &request, &sent.socket, &sent.cycles,
			&received.socket, &received.cycles); err != nil {
			return fmt.Errorf("read %q: line %q: %w", path, lines.Text(), err)
		}
		sent.node, received.node = node, node
		if truth[sent] == nil {
			if t.linked[program] == nil {
				t.linked[program] = &causeCount{}
			}
			t.linked[program].True++
		}
		truth[sent], programs[sent] = append(truth[sent], received), program
	}
	return paths.Causes(run, pathOptions(run), func(c paths.Cause) {
		sent := event{c.Sent.Log.Node, c.Sent.Cookie, c.Sent.Lo_cycles}
		l := t.linked[programs[sent]]
		if l == nil {
			return
		}
		right := 0
		if r := c.Received; r != nil &&
			slices.Contains(truth[sent], event{r.Log.Node, r.Cookie, r.Lo_cycles}) {
			right = 1
		}
		l.Right += right
		if c.Probability >= link.Said {
			l.Said++
			l.SaidWrong += 1 - right
		}
		if c.Probability >= link.Sure {
			l.Sure++
			l.SureWrong += 1 - right
		}
	})
}

func pathOptions(run *runs.Directory) paths.Options {
	n := run.Run.Nodes[0]
	return paths.Options{Slowest: report.MaxTraces, Reference: analysis.Reference{Node: n.Name,
		FrequencyLo_hz: n.FrequencyLo_hz, FrequencyHi_hz: n.FrequencyHi_hz}}
}

func (t *testbed) printLinked(w io.Writer) {
	fmt.Fprintf(w, "\n%-9s %10s %10s %8s %6s %8s %6s\n", "program", "true causes", "found", "said",
		"wrong", "sure", "wrong")
	for _, p := range slices.Sorted(maps.Keys(t.linked)) {
		l := t.linked[p]
		fmt.Fprintf(w, "%-9s %10d %9.2f%% %8d %6d %8d %6d\n", p, l.True,
			100*float64(l.Right)/float64(l.True), l.Said, l.SaidWrong, l.Sure, l.SureWrong)
	}
	if t.Preload != "" {
		fmt.Fprintln(w, "The library does not see gateway, because it is in Go. So nobody knows "+
			"which messages of its\nconnection to tasks are requests. Links of tasks are guesses.")
	}
}
