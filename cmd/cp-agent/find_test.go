package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/cli"
)

// "cprof find" can ask the agent of any node. It finds the node on which a program has a channel
// open, and it finds nodes by their facts.
func TestFindInAFleet(t *testing.T) {
	t.Setenv(droppedVariable, "")
	config := coordinator.DefaultConfig()
	config.AllPairs, config.Degree = 3, 2
	address, _ := startServer(t, config)
	ctx, stop := context.WithCancel(t.Context())
	dir := t.TempDir()
	rings := func(node int) string { return filepath.Join(dir, fmt.Sprint(node), "rings") }
	find := func(node int, args ...string) (int, string) {
		var out bytes.Buffer
		return cli.Run(t.Context(), append([]string{"find", "--rings", rings(node)}, args...),
			&out, &out), out.String()
	}
	const nodes = 4
	code := make(chan int, nodes)
	for node := range nodes {
		var stdout, stderr output
		go func() {
			args := []string{"--node", fmt.Sprint("n", node), "--rings", rings(node),
				"--state", filepath.Join(dir, fmt.Sprint(node), "state"), "--chrony", "off",
				"--role", fmt.Sprint("role", node), "--server", address}
			code <- program(nil).Run(ctx, args, &stdout, &stderr)
		}()
		waitFor(t, "an agent",
			func() bool { return strings.Contains(stderr.String(), "registered") })
		if node > 0 {
			continue
		}
		if c, out := find(0, "role=role0"); c != 0 || out !=
			"n0  role=role0  (confirmed by the node itself)\n" {
			t.Errorf("alone: exit code %d: %s", c, out)
		}
		if c, out := find(0, "role=role1"); c != 1 || !strings.Contains(out, "all_pairs") {
			t.Errorf("alone: exit code %d: %s", c, out)
		}
	}
	link, err := control.Dial(control.ClientConfig{Server: address})
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	waitFor(t, "the graph", func() bool { // until then, nodes have no neighbours to ask
		var m coordinator.Matrix
		if err := link.Ask(t.Context(), coordinator.AskNodes, nil, &m); err != nil {
			t.Fatal(err)
		}
		with := map[string]int{}
		for _, p := range m.Pairs {
			if !p.Old && p.Trains > 0 {
				with[p.From]++
			}
		}
		return len(with) == nodes && !slices.ContainsFunc(slices.Collect(maps.Values(with)),
			func(n int) bool { return n < config.Degree })
	})
	ch, err := handlers.Open("parser#1/start", handlers.Options{Dir: rings(2)})
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	local, err := agent.Connect(rings(2))
	if err == nil {
		err = local.Flush(t.Context()) // the agent then knows the channel
	}
	if err != nil {
		t.Fatal(err)
	}
	if c, out := find(2, "channel=parser#1/*"); c != 0 {
		t.Errorf("on the node itself: exit code %d: %s", c, out)
	}
	for from := range nodes {
		for pattern, want := range map[string]string{
			"channel=parser#*/start": "n2  channel=parser#1/start ",
			"role=role3":             "n3  role=role3 ",
			"kernel=?*":              "  kernel=",
		} {
			waitFor(t, pattern, func() bool {
				c, out := find(from, pattern)
				return c == 0 && strings.Contains(out, want)
			})
		}
	}
	waitFor(t, "hot nodes", func() bool {
		var hot bytes.Buffer
		c := cli.Run(t.Context(), []string{"hot", "--rings", rings(1)}, &hot, &hot)
		return c == 0 && strings.HasPrefix(hot.String(), "n") && strings.Contains(hot.String(), "±")
	})
	waitFor(t, "role=role1 as JSON", func() bool { // a node that answers late is not found
		c, out := find(0, "--json", "role=role1")
		if c == 3 {
			return false
		}
		var f agent.FindAnswer
		if err := json.Unmarshal([]byte(out), &f); err != nil || c != 0 || f.Node != "n1" ||
			f.Fact != "role=role1" || !f.Confirmed || f.Visited == 0 {
			t.Errorf("exit code %d, %v: %s", c, err, out)
		}
		return true
	})
	stop()
	for range nodes {
		if c := <-code; c != 0 {
			t.Errorf("exit code %d", c)
		}
	}
}
