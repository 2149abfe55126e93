package answers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/report"
	"github.com/cloudprofiler/cloudprofiler/report/export"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// changedPart says what was changed in a run.
type changedPart struct {
	run  int    // index of the run in the result of hostileRuns
	node string // the only node with changed logs; empty: several nodes have some
	yaml bool   // run.yaml was changed
}

// harmed returns a run with something changed.
func (m mutator) harmed(all []runFiles) (runFiles, changedPart) {
	h := changedPart{run: m.IntN(len(all))}
	f := make(runFiles, len(all[h.run]))
	for name, data := range all[h.run] {
		f[name] = data
	}
	switch m.IntN(8) {
	case 0, 1, 2, 3:
		h.node = choose(m, []string{"A", "B", "C"})
		m.logs(f, h.node)
	case 4, 5:
		m.relations(f)
	case 6:
		h.yaml = true
		m.runYAML(f)
	default:
		h.yaml = m.once(2)
		m.logs(f, choose(m, []string{"A", "B", "C"}))
		m.logs(f, choose(m, []string{"A", "B", "C"}))
		m.relations(f)
		if h.yaml {
			m.runYAML(f)
		}
	}
	return f, h
}

// hostileTrial runs all questions about changed runs.
type hostileTrial struct {
	dir  string
	all  []runFiles
	base map[string]*analysis.Answer // answers about unchanged runs, by run and options
	sums trialSums
}

// trialSums counts the outcomes.
type trialSums struct {
	Answered, Partial, Refused int
	// runs in which the answers about intact nodes were compared with those about the unchanged run
	Compared int
}

func newTrial(dir string) (*hostileTrial, error) {
	all, err := hostileRuns(dir)
	return &hostileTrial{dir: dir, all: all, base: map[string]*analysis.Answer{}}, err
}

// options returns options for a question about a run in which the part h was changed.
func (m mutator) options(h changedPart) analysis.Options {
	o := analysis.Options{Workers: 1 + m.IntN(2), Memory_bytes: 1 << 20}
	if m.once(2) {
		o.Memory_bytes = 16 << 20
	}
	if h.node != "" && !m.once(4) {
		// Without OnlyEdges, a forged event can put a point between two others.
		o.Edges, o.OnlyEdges = hostileEdges, true
		o.Reference = choose(m,
			slices.DeleteFunc([]string{"A", "B", "C"}, func(n string) bool { return n == h.node }))
		return o
	}
	if m.once(3) {
		o.Edges = hostileEdges
	}
	if m.once(2) {
		o.Reference = choose(m, []string{"A", "B", "C"})
	}
	if m.once(4) {
		o.ThirdNodes = choose(m, []tscratio.ThirdNodes{tscratio.ThirdAny, tscratio.ThirdNone})
	}
	switch m.IntN(12) {
	case 0:
		o.Filter.From_cycles, o.Filter.To_cycles = 1, m.wild(1<<60)|1
	case 1:
		o.Filter.From_utc_ns, o.Filter.To_utc_ns = -1<<62, int64(m.wild(1<<40)>>1|1)
	case 2:
		o.Slowest = -1
	case 3:
		o.Wander = tscratio.Wander(m.Uint64N(20_000_000))
	}
	return o
}

// answer returns the answer about an unchanged run.
func (t *hostileTrial) answer(run int, o analysis.Options) (*analysis.Answer, error) {
	key := fmt.Sprint(run, o.Reference, len(o.Edges), o.OnlyEdges)
	if a := t.base[key]; a != nil {
		return a, nil
	}
	path := filepath.Join(t.dir, []string{"whole", "broken"}[run])
	dir, err := runs.Open(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	t.base[key], err = analysis.Run(context.Background(), dir,
		analysis.Options{Reference: o.Reference, Edges: o.Edges, OnlyEdges: o.OnlyEdges})
	return t.base[key], err
}

// try changes a run and asks all questions about it.
func (t *hostileTrial) try(number uint64) error {
	m := mutator{rand.New(rand.NewPCG(number, 0)), t.dir}
	files, h := m.harmed(t.all)
	path := filepath.Join(t.dir, "harmed")
	defer os.RemoveAll(path)
	if err := files.write(path); err != nil {
		return err
	}
	if err := t.salvage(files, h); err != nil {
		return err
	}
	if m.once(20) {
		return t.commands(m, path, h)
	}
	dir, err := runs.Open(path)
	if err != nil {
		return t.refused(h, err)
	}
	defer dir.Close()
	o := m.options(h)
	a, err := analysis.Run(context.Background(), dir, o)
	if errors.Is(err, analysis.ErrEdge) { // the run lost a point: no file says so
		o.Edges = nil
		a, err = analysis.Run(context.Background(), dir, o)
	}
	if err != nil {
		return t.refused(h, err)
	}
	if t.sums.Answered++; a.Partial {
		t.sums.Partial++
	}
	if err := showAll(a, dir); err != nil {
		return err
	}
	if err := t.intact(a, o, h, path); err != nil {
		return err
	}
	whole, err := t.answer(h.run, analysis.Options{})
	if err != nil {
		return err
	}
	for _, pair := range [][2][]*analysis.Answer{
		{{whole}, {a}}, {{a}, {whole}}, {{a, whole}, {a}},
	} {
		changes, err := analysis.Diff(pair[0], pair[1])
		if err != nil && !h.yaml {
			return fmt.Errorf("diff: %w", err)
		}
		if err := errors.Join(printChanges(io.Discard, pair, changes),
			json.NewEncoder(io.Discard).Encode(changes)); err != nil {
			return fmt.Errorf("print diff: %w", err)
		}
	}
	exported, err := runs.Open(path)
	if err != nil {
		return err
	}
	defer exported.Close()
	if _, _, err := export.Run(context.Background(), exported, o,
		export.Parquet|export.CSV|export.SQL|export.Perfetto); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if _, _, err := export.OTLP(context.Background(), exported, o,
		func([]byte) error { return nil }); err != nil {
		return fmt.Errorf("export OTLP: %w", err)
	}
	return nil
}

// refused returns an error unless err is a justified refusal of the run. Only a changed run.yaml
// justifies a refusal: without run.yaml nothing is known of the run.
func (t *hostileTrial) refused(h changedPart, err error) error {
	if !h.yaml {
		return fmt.Errorf("what is left was not answered: %w", err)
	}
	t.sums.Refused++
	return nil
}

// showAll prints an answer in every format.
func showAll(a *analysis.Answer, dir *runs.Directory) error {
	var text bytes.Buffer
	if err := errors.Join(printAnswer(&text, a, shown{run: "x"}),
		printAnswer(&text, a, shown{run: "x", verbose: true}),
		printAnswerCSV(&text, a)); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	encoded, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("print as JSON: %w", err)
	}
	var again analysis.Answer
	if err := json.Unmarshal(encoded, &again); err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	for _, spans := range [][]analysis.Span{a.Spans, a.EndToEnd} {
		for _, l := range spans {
			if d := &l.All; d.Count > 0 && (d.Min.Lo_cycles > d.Min.Hi_cycles ||
				d.Max.Lo_cycles > d.Max.Hi_cycles || d.Mean.Lo_cycles > d.Mean.Hi_cycles ||
				d.Min.Lo_cycles > d.Max.Hi_cycles) {
				return fmt.Errorf("%s to %s took from %v to %v, in the mean %v",
					l.From, l.To, d.Min, d.Max, d.Mean)
			}
		}
	}
	if err := report.Write(io.Discard, report.From(a, dir, "test")); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// intact compares two answers about the nodes with unchanged logs: the answer about the changed run
// and the answer about the unchanged run.
func (t *hostileTrial) intact(a *analysis.Answer, o analysis.Options, h changedPart,
	path string) error {
	if h.node == "" || !o.OnlyEdges || o.Reference == "" || o.Filter.To_cycles != 0 ||
		o.Filter.To_utc_ns != 0 || o.Wander != 0 || o.ThirdNodes != tscratio.ThirdAgreed {
		return nil
	}
	if names, err := ownNames(filepath.Join(path, "logs"), h.node); err != nil || !names {
		return err
	}
	was, err := t.answer(h.run, o)
	if err != nil {
		return err
	}
	t.sums.Compared++
	harmed := func(node string) bool {
		return node == h.node ||
			strings.HasPrefix(node, h.node+" ")
	}
	if d := cmp.Diff(was.Pairs, a.Pairs); d != "" {
		return fmt.Errorf("with other logs of %s relations are others:\n%s", h.node, d)
	}
	for _, c := range was.Channels {
		if !harmed(c.Node) && !slices.Contains(a.Channels, c) {
			return fmt.Errorf("with other logs of %s the channel %+v is another: %+v",
				h.node, c, a.Channels)
		}
	}
	for _, l := range was.Spans {
		for _, p := range l.Pairs {
			if harmed(p.From) || harmed(p.To) {
				continue
			}
			var now analysis.NodePair
			for _, m := range a.Spans {
				for _, q := range m.Pairs {
					if m.From == l.From && m.To == l.To && q.From == p.From && q.To == p.To {
						now = q
					}
				}
			}
			if d := cmp.Diff(p, now, cmpopts.EquateEmpty()); d != "" {
				return fmt.Errorf("with other logs of %s, %s on %s to %s on %s, in cycles "+
					"of %s, is\n%s", h.node, l.From, p.From, l.To, p.To, o.Reference, d)
			}
		}
	}
	return nil
}

// ownNames reports whether a node shares no point with other nodes, and logs each id at most once
// at a point. If this is false, the node's logs change the answers about other nodes, for two
// reasons. First, only the earliest of a tuple's events at one point is used, whichever node logged
// it. Second, an id that is used again begins another tuple.
func ownNames(logs, node string) (bool, error) {
	entries, err := os.ReadDir(logs)
	if err != nil {
		return false, err
	}
	points := map[string]string{}
	seen := map[string]map[uint64]bool{}
	for _, e := range entries {
		segments, err := logstore.Segments(filepath.Join(logs, e.Name()))
		if err != nil {
			return false, err
		}
		for _, s := range segments {
			point := s.Channel.Actor + "/" + s.Channel.Point
			if known := points[point]; known != "" && known != e.Name() && (known == node ||
				e.Name() == node) {
				return false, nil
			}
			points[point] = e.Name()
			if seen[point] == nil {
				seen[point] = map[uint64]bool{}
			}
			if e.Name() == node && !each(s.Path, seen[point]) {
				return false, nil
			}
		}
	}
	return true, nil
}

// each adds the ids of a log to seen. It reports whether all of these ids were new.
func each(path string, seen map[uint64]bool) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	r, err := logstore.NewReader(f, path)
	if err != nil {
		return true // nothing of the log is read
	}
	for {
		b, err := r.Next()
		var damage *logstore.CorruptionError
		if err != nil && !errors.As(err, &damage) {
			return true
		}
		if b == nil {
			continue
		}
		for _, e := range b.Events {
			if seen[e.ID] {
				return false
			}
			seen[e.ID] = true
		}
	}
}

// salvage runs "cprof log salvage" on the changed logs, and reads the results.
func (t *hostileTrial) salvage(files runFiles, h changedPart) error {
	for name, data := range files {
		if !strings.HasPrefix(name, "logs/") || path.Base(name) == logstore.ManifestName ||
			bytes.Equal(data, t.all[h.run][name]) {
			continue
		}
		from, to := filepath.Join(t.dir, "harmed", filepath.FromSlash(name)),
			filepath.Join(t.dir, "salvaged")
		if code, _, _ := cprof("log", "salvage", from, to); code == command.Failed {
			continue // salvage refused the log
		}
		r, err := logstore.OpenFile(to)
		if err != nil {
			return fmt.Errorf("what was salvaged of %q: %w", name, err)
		}
		for all := r.All(); err == nil; _, err = all.Next() {
		}
		if r.Close(); err != io.EOF {
			return fmt.Errorf("what was salvaged of %q: %w", name, err)
		}
		os.Remove(to)
	}
	return nil
}

// commands runs the commands as people do, and checks their exit codes.
func (t *hostileTrial) commands(m mutator, path string, h changedPart) error {
	whole := filepath.Join(t.dir, []string{"whole", "broken"}[h.run])
	for _, args := range [][]string{
		{"analyze", path}, {"analyze", path, "--json"}, {"analyze", path, "--csv"},
		{"report", path}, {"export", path, "--as", "parquet,csv,perfetto"},
		{"diff", whole, path}, {"diff", path, whole, "--json"},
	} {
		code, out, errors := cprof(args...)
		switch {
		case code == command.Answered && errors == "" && out != "",
			code == command.Partial && errors != "" && out != "":
		case code == command.Failed && h.yaml:
			t.sums.Refused++
			return nil
		default:
			return fmt.Errorf("cprof %q: exit code %d, %d bytes, %s", args, code, len(out), errors)
		}
	}
	t.sums.Answered++
	return nil
}
