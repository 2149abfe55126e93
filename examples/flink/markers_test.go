package main

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/examples/engine"
)

// marker returns Flink's name for a statistic of the markers that arrive at an operator.
func marker(subtask, operator, end string) string {
	return subtask + ".latency.source_id.aa.operator_id." + operator +
		".operator_subtask_index." + subtask + ".latency_" + end
}

// A claim is the range of values of all subtasks of a vertex's first operator. The test also has
// values that must not enter a claim: markers of later operators in a chain, metrics with similar
// names, and values that are not numbers.
func TestMarkersBecomeClaims(t *testing.T) {
	values := map[string]string{
		marker("0", "bb", "p99"):  "9.0",
		marker("1", "bb", "p99"):  "4.5",
		marker("1", "bb", "mean"): "NaN",
		marker("1", "bb", "p75"):  "3.0",
		marker("0", "cc", "p99"):  "70.0",
		"0.mailboxLatencyMs_p99":  "80.0",
	}
	flinks := http.NewServeMux()
	say := func(path, text string) {
		flinks.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(text))
		})
	}
	say("/jobs", `{"jobs":[{"id":"0","status":"FINISHED"},{"id":"1","status":"RUNNING"}]}`)
	say("/jobs/1", `{"vertices":[{"id":"aa","name":"Source: events -> read"},`+
		`{"id":"bb","name":"filter -> project"}]}`)
	say("/jobs/1/vertices/aa/metrics", `[{"id":"0.numRecordsIn"}]`)
	flinks.HandleFunc("/jobs/1/vertices/bb/metrics",
		func(w http.ResponseWriter, r *http.Request) {
			var list []string
			wanted := r.URL.Query().Get("get")
			for name, value := range values {
				switch {
				case wanted == "":
					list = append(list, `{"id":"`+name+`"}`)
				case slices.Contains(strings.Split(wanted, ","), name):
					list = append(list, `{"id":"`+name+`","value":"`+value+`"}`)
				}
			}
			w.Write([]byte("[" + strings.Join(list, ",") + "]"))
		})
	server := httptest.NewServer(flinks)
	defer server.Close()
	f := &flink{rest: server.URL}
	last := said{}
	f.readMarkers(t.Context(), last)
	want := []engine.Claim{{
		Name: "marker at filter", From: "job.read/start", To: "job.filter/start",
		Percent: 99, Lo_ms: 4.5, Hi_ms: 9,
	}}
	if got := last.claims(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
