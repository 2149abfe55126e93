package fleet

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

// answering starts a server that answers each question with what the function answer returns. If
// answer returns nil, the server does not answer.
func answering(t *testing.T, answer func(what string) control.Message) (address string) {
	t.Helper()
	server, err := control.Listen(control.ServerConfig{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	go func() {
		for {
			in, err := server.Receive(t.Context())
			if err != nil {
				return
			}
			if ask, ok := in.Message.(*control.Ask); ok {
				if m := answer(ask.What); m != nil {
					server.Send(in.Peer, in.Request, m)
				}
			}
		}
	}()
	return server.Address()
}

// If a server does not evaluate its fleet in time, the error says how far it was, and what to do.
func TestNodesOfAServerThatIsTooBusy(t *testing.T) {
	defer func(d time.Duration) { nodesLimit = d }(nodesLimit)
	nodesLimit = 2 * time.Second
	address := answering(t, func(what string) control.Message {
		if what != coordinator.AskProgress {
			return nil
		}
		return &control.Answer{Result: json.RawMessage(`{"evaluated":3,"pairs":7}`)}
	})
	code, _, stderr := cprof("nodes", "--server", address)
	if code != command.Failed || !strings.Contains(stderr, "had evaluated 3 of 7 pairs") ||
		!strings.Contains(stderr, "ask for one pair") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// A server of an earlier release does not say how far it is, but its answer is shown.
func TestNodesOfAServerWithoutProgress(t *testing.T) {
	address := answering(t, func(what string) control.Message {
		if what == coordinator.AskNodes {
			return &control.Answer{Result: json.RawMessage(`{"unhealthy":["x is old"]}`)}
		}
		return control.Refuse(control.UnknownKind, "this server does not know the question")
	})
	code, stdout, stderr := cprof("nodes", "--server", address)
	if code != command.Partial || !strings.Contains(stdout, "unhealthy:\n  x is old\n") ||
		strings.Contains(stdout, "jq") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

// In the matrix of a large fleet, "-" means that a pair is deliberately not measured, and "?" means
// that a pair has a problem.
func TestMatrixSaysWhatIsNotMeasured(t *testing.T) {
	m := &coordinator.Matrix{
		Unhealthy: []string{"2 nodes are gone: x, y", "a with b: too few trains"},
		Faults:    []string{"x is gone", "y is gone", "a with b: too few trains"},
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		m.Nodes = append(m.Nodes, coordinator.NodeStatus{Name: name, Alive: true})
	}
	related := coordinator.PairStatus{From: "a", Into: "d", Hi_cycles: 9, Bound_ns: 1000,
		Verdict: "consistent"}
	m.Pairs = []coordinator.PairStatus{
		{From: "a", Into: "b", Verdict: "none", Unhealthy: "too few trains"},
		{From: "a", Into: "c", Verdict: "none", Unhealthy: "too few trains", GivenUp: true},
		related,
	}
	var out strings.Builder
	writeMatrix(&out, m)
	if want := "a  ·  ?  -  1.00"; !strings.Contains(out.String(), want) {
		t.Errorf("%q is missing in\n%s", want, out.String())
	}
	if want := "b  -  ·  -     -"; !strings.Contains(out.String(), want) {
		t.Errorf("%q is missing in\n%s", want, out.String())
	}
	out.Reset()
	writeHealth(&out, m, 20)
	if want := "  2 nodes are gone: x, y\n  a with b: too few trains\n" +
		"each of the 3 faults: cprof nodes --json"; !strings.Contains(out.String(), want) {
		t.Errorf("%q is missing in\n%s", want, out.String())
	}
	if image := heatMap(m); strings.Count(image, "<rect") != 2 || !strings.Contains(image, ">?<") {
		t.Errorf("not one cell for each measured pair: %s", image)
	}
	m = &coordinator.Matrix{Pairs: m.Pairs[1:]}
	if !m.Healthy() {
		t.Error("a pair that is not measured makes the fleet unhealthy")
	}
}
