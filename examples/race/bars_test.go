package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/cli/answers"
	"github.com/cloudprofiler/cloudprofiler/internal/command/commandtest"
	"github.com/cloudprofiler/cloudprofiler/internal/leak"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/replay/page"
	"github.com/cloudprofiler/cloudprofiler/replay/question"
)

func TestMain(m *testing.M) {
	switch {
	case filepath.Base(os.Args[0]) == "cprof-question":
		if err := question.Answer(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	case len(os.Args) > 1 && (os.Args[1] == "process" || os.Args[1] == "-account" ||
		os.Args[1] == "-teller"):
		main()
		return
	}
	os.Exit(leak.Main(m))
}

// TestBarRace runs the account and its three tellers as programs on three virtual nodes. Then it
// asks for an order of the run's events in which a deposit is lost. The order on the page must be
// one that could have happened, and its last event must be the one that loses the deposit.
func TestBarRace(t *testing.T) {
	proof.Begin(t)
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "cprof-question")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	run := filepath.Join(dir, "race")
	b, err := runOnNodes(t.Context(), run, 100, true)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	code, out, errs := commandtest.Run(answers.Commands(), "replay", run, "--page",
		"--find", "balance < deposited",
		"--state", `balance = 0 then event.point == "write" ? `+
			`seen[event.node] + event.value : balance`,
		"--state", `seen by node = 0 then event.point == "read" ? balance : seen[event.node]`,
		"--state", `deposited = 0 then event.point == "write" ? `+
			`deposited + event.value : deposited`)
	took := time.Since(start)
	if code != 0 {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	text, err := os.ReadFile(filepath.Join(run, "exports", "replay.html"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), `type="application/json">`)
	in, _, _ := strings.Cut(rest, "</script>")
	var d page.Data
	if err := json.Unmarshal([]byte(in), &d); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d events, %v; the account lacks %d; found after %d events in %v",
		len(d.Events), d.Orders, b.lost, len(d.Found), took)
	if len(d.Nodes) != 3 || len(d.Events) != 600 || d.Summary.Broken > 0 {
		t.Errorf("nodes %v, %d events, %+v", d.Nodes, len(d.Events), d.Summary)
	}
	if at := losesAfter(t, &d); at == 0 || at != len(d.Found) {
		t.Errorf("an order of %d events, which loses a deposit after %d", len(d.Found), at)
	}
	proof.Check(t, proof.Bar{
		Name:   "time to find a lost update in a run of three nodes, and to write its page",
		Figure: took.Seconds(), Limit: 5, Unit: "s", Timing: true,
	})
}

// losesAfter goes through the events of the order that was found. It returns the number of events
// after which the account first lacks a deposit, or 0 if that never happens.
func losesAfter(t *testing.T, d *page.Data) int {
	t.Helper()
	var lanes [3][]int // the events of each node
	for i, e := range d.Events {
		n := int(e[0].(float64))
		lanes[n] = append(lanes[n], i)
	}
	var happened [3]int
	balance, deposited, seen := uint64(0), uint64(0), map[any]uint64{}
	for i, at := range d.Found {
		e := d.Events[at]
		n := int(e[0].(float64))
		if next := lanes[n][happened[n]]; at != next {
			t.Fatalf("event %d of node %d before event %d", at, n, next)
		}
		happened[n]++
		for _, need := range d.Need[at] {
			if happened[need[0]] < need[1] {
				t.Fatalf("event %d after %v, but it needs %v", at, happened, need)
			}
		}
		var amount uint64
		if _, err := fmt.Sscan(e[2].(string), &amount); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(d.Channels[int(e[1].(float64))], "/read") {
			seen[e[0]] = balance
			continue
		}
		balance, deposited = seen[e[0]]+amount, deposited+amount
		if balance < deposited {
			return i + 1
		}
	}
	return 0
}
