package job

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/placement"
)

const wholeFile = `version: 1
operators:
  - {name: source, time: 4us, per_second: 20000, nodes: [a]}
  - {name: parse, time: 8us..12us, per_second: 18000, instances: 2}
edges:
  - [source, parse]
nodes:
  - {name: a, cores: 0.5}
  - {name: b, cores: 4, speed: 2}
latencies:
  - {from: a, into: b, time: 20us..35us}
local: 1us
now: {source: a, parse: [a, b]}
`

func noFleet() ([]placement.Node, error) { return nil, errors.New("no server") }

func TestParse(t *testing.T) {
	got, err := Parse([]byte(wholeFile), "f", noFleet)
	if err != nil {
		t.Fatal(err)
	}
	us := func(lo, hi float64) placement.Range {
		return placement.Range{Lo_ns: lo * 1000, Hi_ns: hi * 1000}
	}
	want := &File{
		Job: placement.Job{
			Operators: []placement.Operator{
				{Name: "source", Time: us(4, 4), PerSecond: 20000, Nodes: []int{0}},
				{Name: "parse#0", Time: us(8, 12), PerSecond: 9000},
				{Name: "parse#1", Time: us(8, 12), PerSecond: 9000},
			},
			Edges: []placement.Edge{{From: 0, To: 1}, {From: 0, To: 2}},
			Nodes: []placement.Node{{Name: "a", Cores: 0.5, Speed: 1},
				{Name: "b", Cores: 4, Speed: 2}},
		},
		Now: placement.Placement{0, 0, 1}, Latencies: []Latency{{"a", "b", us(20, 35)}},
		Local: us(1, 1),
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
	if missing, err := got.Connect(got.Latencies); err != nil || missing != 0 {
		t.Fatal(missing, err)
	}
	if d := cmp.Diff([][]placement.Range{{us(1, 1), us(20, 35)}, {us(20, 35), us(1, 1)}},
		got.Job.Latency); d != "" {
		t.Error(d)
	}
	fleet := []placement.Node{{Name: "a", Cores: 9, Speed: 1}, {Name: "b", Cores: 9, Speed: 1}}
	text := strings.NewReplacer("nodes:\n", "", "  - {name: a, cores: 0.5}\n", "",
		"  - {name: b, cores: 4, speed: 2}\n", "").Replace(wholeFile)
	got, err = Parse([]byte(text), "f", func() ([]placement.Node, error) { return fleet, nil })
	if err != nil || got.Job.Nodes[0].Cores != 9 {
		t.Errorf("%+v, %v", got, err)
	}
}

// An error names the line of the mistake. For a wrong word, it also offers the right one.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ change, to, want string }{
		{"version: 1", "version: 2", "line 1: no version 1"},
		{"  - [source, parse]", "  - [source", "line 5: did not find"},
		{"time: 4us", "tiem: 4us", `line 3: an operator has the unknown key "tiem", did you mean ` +
			`"time"?`},
		{"time: 4us", "time: 4", `line 3: time is "4": write a time, such as 12us`},
		{"8us..12us", "12us..8us", `line 4: time is "12us..8us"`},
		{"nodes: [a]", "nodes: [c]", `line 3: node "c" is not in the list of nodes`},
		{"nodes: [a]", "nodes: a", "line 3: nodes is not a list"},
		{"instances: 2", "instances: 1.5", `line 4: operator "parse" has 1.5 instances`},
		{"instances: 2", "instances: x", `line 4: instances is "x": write a number`},
		{"name: parse", "name: source", `line 4: operator "source" is listed twice`},
		{"[source, parse]", "[source, prase]", `line 6: operator "prase" is not in the list of ` +
			`operators, did you mean "parse"?`},
		{"[source, parse]", "source", "line 6: an edge is a list of the op"},
		{"name: b", "name: a", `line 9: node "a" is listed twice`},
		{"cores: 0.5", "cores: -1", `line 8: cores is "-1"`},
		{"into: b", "into: c", `line 11: node "c" is not in the list`},
		{", time: 20us..35us", "", "line 11: the latency has no time"},
		{"local: 1us", "local: x", "line 12: local is"},
		{"parse: [a, b]", "parse: a", `line 13: operator "parse" has 2 instances, but 1 nodes`},
		{", parse: [a, b]", "", `line 13: now does not say where operator "parse#0" runs`},
		{"now: {", "now: {now: 1, now: 2,", `operator "now" is not in the list`},
		{"local: 1us", "nodes: []", `line 12: the job has "nodes" twice`},
	} {
		text := strings.Replace(wholeFile, c.change, c.to, 1)
		if text == wholeFile {
			t.Fatalf("%q is not in the file", c.change)
		}
		_, err := Parse([]byte(text), "f", noFleet)
		if !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got error %v, want %q", c.to, err, c.want)
		}
	}
	for _, text := range []string{"", "version: 1\n", "- 1", "a: &a [*a]"} {
		if _, err := Parse([]byte(text), "f", noFleet); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// A latency that is not given is at most that of the fastest route over other nodes.
func TestConnect(t *testing.T) {
	f := &File{}
	for i := range 5 {
		f.Job.Nodes = append(f.Job.Nodes, placement.Node{Name: fmt.Sprint(i)})
	}
	latency := func(from, into string, ns float64) Latency {
		return Latency{from, into, placement.Range{Lo_ns: ns - 1, Hi_ns: ns}}
	}
	some := []Latency{latency("0", "1", 10), latency("1", "2", 20), latency("2", "0", 50),
		latency("3", "0", 5), latency("0", "3", 7), latency("9", "0", 1)}
	if _, err := f.Connect(some); !errors.Is(err, ErrFile) ||
		!strings.Contains(err.Error(), `from node "0" to node "4"`) {
		t.Errorf("a node without latencies: %v", err)
	}
	f.Job.Nodes = f.Job.Nodes[:4]
	missing, err := f.Connect(some)
	if err != nil || missing != 4 {
		t.Errorf("%d missing, %v", missing, err)
	}
	for _, c := range []struct {
		from, into int
		want       placement.Range
	}{
		{2, 1, placement.Range{Lo_ns: 19, Hi_ns: 20}},
		{0, 2, placement.Range{Lo_ns: 49, Hi_ns: 50}},
		{3, 1, placement.Range{Hi_ns: 15}}, {1, 3, placement.Range{Hi_ns: 17}},
		{3, 2, placement.Range{Hi_ns: 35}}, {2, 3, placement.Range{Hi_ns: 37}},
	} {
		if got := f.Job.Latency[c.from][c.into]; got != c.want {
			t.Errorf("from %d into %d: %v, want %v", c.from, c.into, got, c.want)
		}
	}
}

// For any file, Parse returns an error, or a job that placement accepts or refuses.
func FuzzParse(f *testing.F) {
	f.Add([]byte(wholeFile))
	f.Add([]byte("version: 1\noperators: [{name: a, time: 1s}]\nnodes: [{name: b, cores: 1}]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse(text, "f", noFleet)
		if err != nil {
			return
		}
		if len(file.Job.Nodes) > 50 || len(file.Job.Operators) > 50 {
			return
		}
		if _, err := file.Connect(file.Latencies); err != nil {
			return
		}
		p, err := placement.New(&file.Job)
		if err != nil {
			return
		}
		a, err := p.Solve(placement.Effort{Changes: 100, Rounds: 1, Choices: 100})
		if err != nil {
			return
		}
		if err := p.Allowed(a.At); err != nil {
			t.Error(err)
		}
		if end := a.End.Latency; !(end.Lo_ns <= end.Hi_ns) || math.IsInf(end.Hi_ns, 0) ||
			a.Limit_ns > end.Hi_ns*(1+1e-9) {
			t.Errorf("%+v", a)
		}
	})
}
