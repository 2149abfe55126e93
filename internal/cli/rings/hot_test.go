package rings

import (
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/internal/testimony"
)

// The command cprof hot prints the nodes that the agent names. Its exit code says whether there are
// any.
func TestHot(t *testing.T) {
	dir := testimony.Rings(t)
	l, err := net.Listen("unix", filepath.Join(dir, agent.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	var nodes []agent.HotNode
	server := http.Server{Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != agent.PathHot {
				http.Error(w, "asked for "+r.URL.String(), http.StatusTeapot)
				return
			}
			// If this fails, the command fails.
			_ = json.NewEncoder(w).Encode(
				agent.HotAnswer{By: r.URL.Query().Get("by"), Nodes: nodes})
		})}
	go server.Serve(l)
	defer server.Close()
	for _, tc := range []struct {
		by    string
		nodes []agent.HotNode
		code  int
		want  string
	}{
		{"bound", []agent.HotNode{{Node: "n1", Value: 12_345}, {Node: "longer\x1b", Value: 7}}, 0,
			"n1       ± 12.345µs\n" + `longer\u001b  ± 7ns` + "\n"},
		{"dropped", []agent.HotNode{{Node: "n1", Value: 12_345}}, 0, "n1  12,345 dropped\n"},
		{"ring-fill", []agent.HotNode{{Node: "n1", Value: 45}}, 0, "n1  45 %\n"},
		{"dropped", nil, 3, "none: no node says that a program dropped events\n"},
	} {
		nodes = tc.nodes
		code, out, errs := cprof("hot", "--rings", dir, "--by", tc.by)
		if code != tc.code || out != tc.want {
			t.Errorf("exit code %d, %q%s, want %q", code, out, errs, tc.want)
		}
		var got agent.HotAnswer
		code, out, errs = cprof("hot", "--rings", dir, "--json", "--by", tc.by)
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != tc.code ||
			!cmp.Equal(got, agent.HotAnswer{By: tc.by, Nodes: tc.nodes}) {
			t.Errorf("exit code %d, %v, %s%s", code, err, out, errs)
		}
	}
	if code, _, errs := cprof("hot", "--rings", dir, "--by", "age"); code != 2 ||
		!strings.Contains(errs, "want one of bound, dropped, ring-fill") {
		t.Errorf("no kind of heat: exit code %d, %s", code, errs)
	}
}
