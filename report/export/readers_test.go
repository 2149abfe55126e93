package export

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// pythonWith returns a Python that has a module, or says why there is none.
func pythonWith(module string) (command, absent string) {
	command = cmp.Or(os.Getenv("CLOUDPROFILER_PYTHON"), "python3")
	if err := exec.Command(command, "-c", "import "+module).Run(); err != nil {
		absent = fmt.Sprintf("%s has no module %s: pip install %[2]s, or name another Python in "+
			"CLOUDPROFILER_PYTHON", command, module)
	}
	return command, absent
}

// runPython runs a program in a directory and reads the JSON that it prints. The program needs
// Python with a module, which the command "make test-export" installs.
func runPython(t *testing.T, dir, module, program, stdin string, out any) {
	t.Helper()
	command, absent := pythonWith(module)
	switch {
	case absent == "":
	case os.Getenv("CLOUDPROFILER_PYTHON") != "": // make test-export chose it
		t.Fatal(absent)
	default:
		t.Skip(absent + ": make test-export runs this test")
	}
	cmd := exec.Command(command, "-c", program)
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, strings.NewReader(stdin), os.Stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stdin)
	}
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatal(err)
	}
}

// perfettoTrace is a trace as a reader with Perfetto's own schema finds it.
type perfettoTrace struct {
	Unknown []string // fields that the schema does not have
	Types   map[string]int
	Slices  []string
}

// perfettoReads reads the trace in a directory. Of the annotations of each slice, it returns those
// with the given names.
func perfettoReads(t *testing.T, dir, names string) (trace perfettoTrace) {
	t.Helper()
	runPython(t, dir, "perfetto", `
import json, sys
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
unknown, types, slices, tracks, processes = [], {}, [], {}, {}
def check(m):
    unknown.extend("%s %d" % (m.DESCRIPTOR.full_name, u.field_number) for u in UnknownFieldSet(m))
    for f, v in m.ListFields():
        if f.type == f.TYPE_MESSAGE:
            for inner in ([v] if hasattr(v, "DESCRIPTOR") else v):
                check(inner)
names = sys.stdin.read().split()
trace = pb.Trace()
with open("trace.perfetto-trace", "rb") as f:
    trace.ParseFromString(f.read())
check(trace)
for p in trace.packet:
    if p.HasField("track_descriptor"):
        d = p.track_descriptor
        name = d.process.process_name or d.thread.thread_name or d.name
        if d.HasField("process"):
            processes[d.process.pid] = name
        if d.HasField("thread"):
            name = processes[d.thread.pid] + " " + name
        elif tracks.get(d.parent_uuid, "").endswith(" " + name):  # a lane
            name = tracks[d.parent_uuid]
        tracks[d.uuid] = name
    if p.HasField("track_event"):
        e = p.track_event
        name = pb.TrackEvent.Type.Name(e.type)
        types[name] = types.get(name, 0) + 1
        if name == "TYPE_SLICE_BEGIN":
            a = {d.name: (d.int_value if d.HasField("int_value") else d.string_value)
                for d in e.debug_annotations}
            words = [tracks[e.track_uuid], e.name] + [str(a[n]) for n in names]
            words.append("%d flows" % len(e.flow_ids))
            slices.append(" ".join(words))
print(json.dumps({"Unknown": unknown, "Types": types, "Slices": slices}))
`, names, &trace)
	if len(trace.Unknown) > 0 {
		t.Errorf("the schema does not know %q", trace.Unknown)
	}
	slices.Sort(trace.Slices)
	return trace
}

// Perfetto's own schema knows every field of a trace. A reader with this schema finds the durations
// of the table on the threads of their instances.
func TestPerfettoReadsTrace(t *testing.T) {
	dir, answer := exportedRun(t, seed.Random(t), 300)
	trace := perfettoReads(t, dir,
		"tuple_id from_node to_node kind lo_cycles hi_cycles scenario verdict")
	if n := int(durationsOf(answer)); len(trace.Types) != 3 || trace.Types["TYPE_INSTANT"] == 0 ||
		trace.Types["TYPE_SLICE_BEGIN"] != n || trace.Types["TYPE_SLICE_END"] != n {
		t.Errorf("events %v, want %d slices", trace.Types, n)
	}
	f, err := os.Open(filepath.Join(dir, "durations.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	// The columns are tuple_id, way, from_way, from_point, to_point, from_node, to_node, kind,
	// critical, lo_cycles, hi_cycles, lo_ns, hi_ns, scenario and verdict.
	points := map[string]int{} // by tuple: the number of its rows
	for _, r := range rows[1:] {
		points[r[0]]++
	}
	for _, r := range rows[1:] {
		track, name, flows := "", r[3]+" → "+r[4], 0
		switch r[7] {
		case "end-to-end":
			track, name = "end to end", "tuple "+r[0]
		case "computation":
			track, flows = "B b#1", 1
			if points[r[0]] == 4 { // the tuple arrived
				flows = 2
			}
		default:
			track = map[string]string{"a/send": "A a → B b#1", "b/end": "B b#1 → C c"}[r[3]]
		}
		words := []string{track, name, r[0], r[5], r[6], r[7], r[9], r[10], r[13],
			r[14], fmt.Sprint(flows, " flows")}
		want = append(want, strings.Join(words, " "))
	}
	slices.Sort(want)
	if !slices.Equal(want, trace.Slices) {
		t.Errorf("of %d slices and %d durations not all are the same, first %q and %q",
			len(trace.Slices), len(want), trace.Slices[0], want[0])
	}
}

// Perfetto's own schema also knows the captured messages in a trace.
func TestPerfettoReadsMessages(t *testing.T) {
	dir, all, _ := capturedRun(t)
	if _, _, err := Run(t.Context(), dir, analysis.Options{Reference: "B"}, Perfetto); err != nil {
		t.Fatal(err)
	}
	trace := perfettoReads(t, filepath.Join(dir.Path, "exports"),
		"from_program to_program bytes lo_cycles hi_cycles verdict")
	var want []string
	for i := range all {
		d := all[i].Transfer
		want = append(want, fmt.Sprintf("A client → B server 50 bytes client server 50 %d %d %s "+
			"0 flows", d.Lo, d.Hi, d.Verdict))
	}
	slices.Sort(want)
	if !slices.Equal(want, trace.Slices) || trace.Types["TYPE_INSTANT"] != 2*len(all) {
		t.Errorf("%d slices of %d messages, %v, first %q and %q", len(trace.Slices), len(all),
			trace.Types, trace.Slices[0], want[0])
	}
}
