package export

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/paths"
	"github.com/cloudprofiler/cloudprofiler/internal/callgen"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// withPaths makes a run in which messages were captured, and returns its paths.
func withPaths(t *testing.T, requests int) (*runs.Directory, analysis.Basis, paths.Options,
	[]paths.Path) {
	t.Helper()
	set := callgen.Make(callgen.Apps["shop"], callgen.Options{Requests: requests, PerSecond: 40,
		Seed: 1})
	parent := t.TempDir()
	if err := callgen.Capture(seed.Random(t), parent, "run", set, 2); err != nil {
		t.Fatal(err)
	}
	dir, err := runs.Open(filepath.Join(parent, "run"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	var basis analysis.Basis
	_, err = analysis.Run(t.Context(), dir, analysis.Options{Reference: "A",
		Begin: func(b analysis.Basis) error { basis = b; return nil }})
	if err != nil {
		t.Fatal(err)
	}
	var all []paths.Path
	o := paths.Options{Reference: basis.Reference}
	of := o
	of.Each = func(p *paths.Path) error { all = append(all, *p); return nil }
	if _, err := paths.Of(dir, of); err != nil || len(all) < requests {
		t.Fatalf("%d paths, want %d: %v", len(all), requests, err)
	}
	return dir, basis, o, all
}

// A table of paths has each call with its parent, its probability and its moments. The CSV file has
// the same columns and values.
func TestTableOfPaths(t *testing.T) {
	dir, basis, o, all := withPaths(t, 60)
	files, answer, err := Paths(dir, basis, o, Parquet|CSV)
	if err != nil || answer.Chosen != len(all) || len(files) != 2 ||
		files[0].Note != fmt.Sprintf("%d of %d paths", len(all), len(all)) {
		t.Fatalf("files %v, %v", files, err)
	}
	at := func(name string) string { return filepath.Join(dir.Path, "exports", name) }
	rows, err := parquet.ReadFile[pathRow](at("paths.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range all {
		for k, c := range all[i].Calls {
			r := rows[n]
			n++
			parent := -1
			if r.Parent != nil {
				parent = int(*r.Parent)
			}
			same := r.Path == int64(i+1) && r.Call == int32(k) && parent == c.Parent &&
				r.Probability == c.Probability && r.RunnerUp == c.RunnerUp &&
				r.PathProbability == all[i].Probability && int(r.Pattern) == all[i].Pattern+1 &&
				r.FromProgram == c.From.Program && r.ToProgram == c.To.Program &&
				r.ToNode == c.To.Node && r.ToProcess == c.To.Process &&
				r.ToSocket == c.To.Socket && r.FromThread == c.From.Thread &&
				*r.BeganLo_cycles+int64(basis.Zero_cycles) == int64(all[i].Began.Lo) &&
				*r.ReceivedLo_cycles == c.Received.Lo_cycles &&
				*r.RepliedHi_cycles == c.Replied.Hi_cycles && *r.OwnLo_cycles == c.Own.Lo_cycles &&
				(r.SentHi_cycles == nil) == (c.Sent == nil) &&
				(r.GotLo_cycles == nil) == (c.Got == nil) &&
				(r.NetworkLo_cycles == nil) == (c.Network == nil)
			if !same || c.Sent != nil && (*r.SentHi_cycles != c.Sent.Hi_cycles ||
				*r.GotLo_cycles != c.Got.Lo_cycles ||
				*r.NetworkHi_cycles != c.Network.Hi_cycles) {
				t.Fatalf("row %+v of path %d, call %+v", r, i, c)
			}
			ns := float64(c.Own.Lo_cycles) / simrun.Hz * 1e9
			if math.Abs(float64(*r.OwnLo_ns)-ns) > 2+ns/1000 {
				t.Fatalf("%d ns, want %v", *r.OwnLo_ns, ns)
			}
		}
	}
	if n != len(rows) {
		t.Errorf("%d rows, want %d", len(rows), n)
	}
	text, err := os.ReadFile(at("paths.csv"))
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(lines) != len(rows)+1 || !slices.Equal(lines[0], columnsOf(pathRow{})) {
		t.Fatalf("%d lines of text, %d rows: %v", len(lines), len(rows), err)
	}
	for i, r := range rows {
		l := lines[i+1]
		p, err := strconv.ParseFloat(l[5], 64)
		if err != nil || p != r.Probability || l[1] != fmt.Sprint(r.Call) ||
			l[len(l)-2] != decimal(r.NetworkHi_ns) || l[len(l)-1] != "consistent" ||
			l[7] != r.FromProgram {
			t.Fatalf("line %q, row %+v", l, r)
		}
	}
}

// Paths are exported as traces of OpenTelemetry. A reader of such traces finds the same calls with
// the same causes, and the probability of each cause.
func TestPathsReadBackFromOTLP(t *testing.T) {
	dir, basis, o, all := withPaths(t, 60)
	file := filepath.Join(t.TempDir(), "paths.jsonl")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	told, _, err := PathsOTLP(dir, basis, o, Lines(f))
	if f.Close(); err != nil || told.Lacking > 0 {
		t.Fatalf("%+v, %v", told, err)
	}
	set, err := calls.Read(calls.OTLP, file)
	if err != nil {
		t.Fatal(err)
	}
	if set.Oddities.Spans != int(told.Spans) || set.Oddities.Duplicates > 0 ||
		set.Oddities.Parentless > 0 || set.Paths != len(all) {
		t.Fatalf("%+v, %d paths, want %d", set.Oddities, set.Paths, len(all))
	}
	// Each call is described by a text: its two programs and its length, and the same of each call
	// above it.
	var want, got []string
	for _, p := range all {
		for i := range p.Calls {
			text := ""
			for k := i; k >= 0; k = p.Calls[k].Parent {
				c := &p.Calls[k]
				text += fmt.Sprintf("%s→%s %d ", c.From.Program, c.To.Program,
					middle_us(c.Received, c.Replied, basis.Reference))
			}
			want = append(want, text)
		}
	}
	name := func(place int32) string {
		if place < 0 {
			return ""
		}
		return set.Places[place].Program
	}
	for i := range set.Calls {
		text := ""
		for k := int32(i); k >= 0; k = set.Cause[k] {
			c := &set.Calls[k]
			text += fmt.Sprintf("%s→%s %d ", name(c.Caller), name(c.Callee),
				(c.Replied_ns-c.Received_ns+500)/1000)
		}
		got = append(got, text)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n := bytes.Count(text, []byte(`"cloudprofiler.link_probability","value":{"doubleValue":`))
	if n != int(told.Spans) {
		t.Errorf("%d of %d spans say how probable their link is", n, told.Spans)
	}
}

// middle_us returns the time between the middles of two moments. It computes the time in ns, but
// returns it in µs, rounded.
func middle_us(from, to *paths.Interval, r analysis.Reference) int64 {
	mid := func(i *paths.Interval) int64 { return i.Lo_cycles/2 + i.Hi_cycles/2 }
	return (nsOf(mid(to)-mid(from), mid(to)-mid(from), r) + 500) / 1000
}

// A trace of paths for Perfetto has a slice for each half of a call, and flows that lead from each
// call to those that it caused.
func TestPathsForPerfetto(t *testing.T) {
	dir, basis, o, all := withPaths(t, 30)
	if _, _, err := Paths(dir, basis, o, Perfetto); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir.Path, "exports", "paths.perfetto-trace"))
	if err != nil {
		t.Fatal(err)
	}
	d := drawnOf(t, text)
	halves := map[string][]*drawnSlice{} // by path and call
	for i := range d.slices {
		s := &d.slices[i]
		key := s.about["path"] + " " + s.about["call"]
		halves[key] = append(halves[key], s)
	}
	for i, p := range all {
		for k, c := range p.Calls {
			of := halves[fmt.Sprint(i+1, " ", k)]
			want := 1
			if c.Sent != nil {
				want = 2
			}
			if len(of) != want {
				t.Fatalf("path %d, call %d: %d slices, want %d", i, k, len(of), want)
			}
			flows := func(s *drawnSlice) map[uint64]bool {
				m := map[uint64]bool{}
				for _, f := range s.flows {
					m[f] = true
				}
				return m
			}
			for _, s := range of {
				if s.about["link_probability"] != fmt.Sprint(c.Probability) {
					t.Fatalf("probability %q, want %v", s.about["link_probability"], c.Probability)
				}
				if s.name != c.To.Program {
					continue
				}
				length := middle_us(c.Received, c.Replied, basis.Reference)
				if got := (int64(s.length) + 500) / 1000; got < length-1 || got > length+1 {
					t.Fatalf("a slice of %d µs, want %d", got, length)
				}
			}
			if c.Parent < 0 {
				continue
			}
			linked := 0
			for _, above := range halves[fmt.Sprint(i+1, " ", c.Parent)] {
				for f := range flows(above) {
					for _, s := range of {
						if flows(s)[f] {
							linked++
						}
					}
				}
			}
			if linked != 1 {
				t.Fatalf("%d flows lead to call %d of path %d", linked, k, i)
			}
		}
	}
}

// If only the slowest paths are wanted, only they are written.
func TestSlowestPaths(t *testing.T) {
	dir, basis, o, all := withPaths(t, 30)
	o.Slowest = 3
	files, _, err := Paths(dir, basis, o, Parquet)
	if err != nil || files[0].Note != fmt.Sprintf("3 of %d paths", len(all)) {
		t.Fatalf("%v, %v", files, err)
	}
	rows, err := parquet.ReadFile[pathRow](filepath.Join(dir.Path, "exports", "paths.parquet"))
	if err != nil || rows[len(rows)-1].Path != 3 {
		t.Errorf("the last path is %d, %v", rows[len(rows)-1].Path, err)
	}
}

// If a time of a call is an estimate, each export says so.
func TestSuspectPaths(t *testing.T) {
	p := &paths.Path{Calls: []paths.PathCall{{}, {Suspect: true}}}
	for i, r := range pathRows(1, p, &analysis.Basis{}) {
		want := []string{"consistent", "suspect"}[i]
		about := aboutCall(p, &p.Calls[i], &analysis.Reference{})
		if r.Verdict != want || !slices.Contains(about, text("verdict", want)) {
			t.Errorf("call %d: verdict %q, %v", i, r.Verdict, about)
		}
	}
}
