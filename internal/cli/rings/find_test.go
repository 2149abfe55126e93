package rings

import (
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/internal/testimony"
)

// The command prints what the agent answers, and its exit code says whether a node was found.
func TestFind(t *testing.T) {
	dir := testimony.Rings(t)
	l, err := net.Listen("unix", filepath.Join(dir, agent.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	var answer agent.FindAnswer
	server := http.Server{Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != agent.PathFind || r.URL.Query().Get("fact") != "role=a b*" {
				http.Error(w, "asked for "+r.URL.String(), http.StatusTeapot)
				return
			}
			_ = json.NewEncoder(w).Encode(answer) // if it fails, the command fails
		})}
	go server.Serve(l)
	defer server.Close()
	for _, tc := range []struct {
		answer agent.FindAnswer
		code   int
		want   string
	}{
		{agent.FindAnswer{Node: "n1", Fact: "role=a b\x1b", Confirmed: true, Visited: 3}, 0,
			`n1  role=a b\u001b  (confirmed by the node itself)`},
		{agent.FindAnswer{Visited: 1028, Missed: 0.0123}, 3, "none: in 1,028 visits, no node had " +
			`a fact like "role=a b*". If a node has one, it was missed with probability 0.012.`},
		{agent.FindAnswer{Visited: 1028, Missed: 1e-80}, 3, "none: in 1,028 visits, no node had " +
			`a fact like "role=a b*". If a node has one, it was missed with probability less ` +
			"than 1e-09."},
	} {
		answer = tc.answer
		code, out, errs := cprof("find", "--rings", dir, "role=a b*")
		if code != tc.code || out != tc.want+"\n" {
			t.Errorf("exit code %d, %s%s, want %s", code, out, errs, tc.want)
		}
		var got agent.FindAnswer
		code, out, errs = cprof("find", "--rings", dir, "--json", "role=a b*")
		if err := json.Unmarshal([]byte(out), &got); err != nil || got != answer ||
			code != tc.code {
			t.Errorf("exit code %d, %v, %s%s", code, err, out, errs)
		}
	}
	for pattern, want := range map[string]string{
		"worker":             "give KEY=VALUE",
		"channel=par[a-z]/*": `no channel's name has "["`,
	} {
		if code, _, errs := cprof("find", "--rings", dir, pattern); code != 2 ||
			!strings.Contains(errs, want) {
			t.Errorf("find %q: exit code %d, %s", pattern, code, errs)
		}
	}
	if code, _, errs := cprof("find", "--rings", dir, "role=other"); code != 1 ||
		!strings.Contains(errs, "asked for") {
		t.Errorf("refused: exit code %d, %s", code, errs)
	}
}
