package agent

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every metric that docs/agent.md recommends exists and means what its name says.
func TestMetricsThatTheDocsName(t *testing.T) {
	s := &Status{
		Lost: "another has it", Left: 5, SetAside: 6, Limit: "reached",
		Link:  LinkStatus{Server: "alpha:1", Connected: true},
		Table: TableStatus{Source: "server", Error: "bad"}, Chrony: ChronyStatus{Bound_ns: 2e9},
		Total: Counts{
			Events: 100, Dropped: 101, NotStored: 102, OverRate: 103, Missing: 104, Unread: 105,
			Holes: 106, Rows: 107, LogBytes: 108, Failures: 109, Removed: 110,
		},
		Processes: []ProcessUsage{{1, 1, 1000, 0}, {2, 3, 3000, 0}, {3, 1, 1000, 0}},
	}
	want := map[string]float64{
		"dropped_total": 101, "not_stored_total": 102, "limit_reached": 1, "over_rate_total": 103,
		"missing_total": 104, "removed_files_total": 110, "unread_total": 105,
		"directory_lost": 1, "left_rings": 5, "set_aside_rings": 6, "log_failures_total": 109,
		"server_connected": 1, "handler_table_stale": 1, "ring_bytes": 5000, "processes": 3,
		"chrony_bound_seconds": 2,
	}
	text, err := os.ReadFile("../docs/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "| metric `cloudprofiler_agent_…` |")
	table, _, ended := strings.Cut(table, "\n\n")
	if !found || !ended {
		t.Fatal("there is no table of metrics")
	}
	named := 0
	for _, row := range strings.Split(table, "\n")[2:] {
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(
			strings.Split(row, " | ")[0], -1) {
			named++
			got := -1.0
			for _, m := range nodeMetrics {
				if strings.Contains(m.desc.String(), `"cloudprofiler_agent_`+name[1]+`"`) {
					got = m.of(s)
				}
			}
			if value, known := want[name[1]]; !known || got != value {
				t.Errorf("%s is %v, want %v (known here: %v)", name[1], got, value, known)
			}
		}
	}
	if named != len(want) {
		t.Errorf("the table names %d metrics, and %d are wanted", named, len(want))
	}
}
