package export

import (
	"context"
	"encoding/csv"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// exportedRun makes a run of three nodes, with a computation and losses, and exports it as all
// kinds of files.
func exportedRun(t *testing.T, rng *rand.Rand, tuples int) (string, *analysis.Answer) {
	t.Helper()
	nodes := simrun.Nodes(rng, 3)
	var channels []simrun.Channel
	for i, name := range []string{"a/send", "b#1/start", "b#1/end", "c/recv"} {
		channels = append(channels, simrun.Channel{Node: []int{0, 1, 1, 2}[i], Name: name})
	}
	now := uint64(simrun.Hz)
	for id := range uint64(tuples) {
		now += rng.Uint64N(30_000)
		at := now
		for i := range channels {
			at += 100 + rng.Uint64N(1<<rng.UintN(20))
			channels[i].Records = append(channels[i].Records,
				simrun.Record{Time: at, ID: id | 1<<63})
			if rng.IntN(100) == 0 {
				break
			}
		}
	}
	for i := range channels {
		simrun.InOrder(channels[i].Records)
	}
	parent := t.TempDir()
	if err := simrun.Write(rng, parent, "r", nodes, channels); err != nil {
		t.Fatal(err)
	}
	dir, err := runs.Open(filepath.Join(parent, "r"))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	files, answer, err := Run(context.Background(), dir, analysis.Options{Reference: "B"},
		Parquet|CSV|SQL|Perfetto)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 16 {
		t.Errorf("files %v", files)
	}
	return filepath.Join(parent, "r", "exports"), answer
}

func TestCSV(t *testing.T) {
	dir, answer := exportedRun(t, seed.Random(t), 500)
	for name, want := range map[string]uint64{"events.csv": answer.Work.Events,
		"durations.csv": durationsOf(answer)} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(f).ReadAll()
		f.Close()
		if err != nil || uint64(len(rows)) != want+1 {
			t.Errorf("%s has %d rows below its head, want %d; %v", name, len(rows)-1, want, err)
		}
	}
}

// Each column has the values of its own field.
func TestCSVRows(t *testing.T) {
	var events, durations, edges, about, origins strings.Builder
	s := newTables(newCSV([]io.Writer{&events, &durations, &edges, &about, &origins}))
	unplaced := anEvent
	unplaced.Unplaced = true
	made := aDuration
	made.Tuple, made.Origin, made.Made = 0, 8, 9
	made.Ends = [2]tscratio.Interval{{Lo: 100, Hi: 102}, {Lo: 103, Hi: 107}}
	if err := errors.Join(s.begin("r", aBasis), s.duration(&aDuration), s.event(&anEvent),
		s.event(&unplaced), s.duration(&made), s.finish(nil)); err != nil {
		t.Fatal(err)
	}
	want := `tuple_id,way,path,lo_cycles,hi_cycles,lo_ns,hi_ns,node,channel,point,verdict
18446744073709551615,7,0,-1,3,-1,3,n,a#5/p,a/p,suspect
18446744073709551615,7,0,,,,,n,a#5/p,a/p,unknown
`
	if events.String() != want {
		t.Errorf("events\n%swant\n%s", &events, want)
	}
	want = `tuple_id,way,from_way,from_point,to_point,from_node,to_node,kind,` +
		`critical,lo_cycles,hi_cycles,lo_ns,hi_ns,scenario,verdict
6,7,7,a/p,b/q,n,m,transfer,surely,-8,9,-8,9,direct,suspect
6,9,8,a/p,b/q,n,m,transfer,surely,-8,9,-8,9,direct,suspect
`
	if durations.String() != want {
		t.Errorf("durations\n%swant\n%s", &durations, want)
	}
	want = "path,from_point,to_point,kind\n0,a/p,b/q,transfer\n"
	if edges.String() != want {
		t.Errorf("edges\n%swant\n%s", &edges, want)
	}
	want = "way,from_way,from_point,to_point,kind,earlier_cycles,later_cycles\n" +
		"9,8,a/p,b/q,transfer,2,9\n"
	if origins.String() != want {
		t.Errorf("origins\n%swant\n%s", &origins, want)
	}
	want = "key,value\nversion,1\nrun,r\nreference_node,n\nzero_cycles,9223372036854775809\n"
	if !strings.HasPrefix(about.String(), want) {
		t.Errorf("about\n%swant\n%s…", &about, want)
	}
}

func durationsOf(a *analysis.Answer) uint64 {
	var n uint64
	for _, spans := range [][]analysis.Span{a.Spans, a.EndToEnd} {
		for _, l := range spans {
			n += l.All.Count
		}
	}
	return n
}

// If an export is stopped, the files of an earlier export stay, and the stopped export leaves none.
func TestExportThatIsStopped(t *testing.T) {
	exports, _ := exportedRun(t, seed.Random(t), 5000)
	files := func() map[string]string {
		all := map[string]string{}
		err := filepath.WalkDir(exports, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			all[strings.TrimPrefix(path, exports+"/")] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	before := files()
	dir, err := runs.Open(filepath.Dir(exports))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	stopped := errors.New("stopped by a signal")
	ctx, cancel := context.WithCancelCause(t.Context())
	o := analysis.Options{Reference: "A", Progress: func(_ float64, what string) {
		if what == "joining tuples" {
			cancel(stopped)
		}
	}}
	if names, _, err := Run(ctx, dir, o, Parquet|CSV|SQL|Perfetto); !errors.Is(err, stopped) ||
		len(names) > 0 {
		t.Errorf("files %q, %v", names, err)
	}
	if after := files(); len(before) != 16 || !maps.Equal(before, after) {
		t.Errorf("there are %q, and were %q, or another text is in one",
			slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
	}
	if _, _, err := Run(t.Context(), dir, analysis.Options{Reference: "A"}, CSV); err != nil {
		t.Error(err)
	}
	if after := files(); after["events.csv"] == before["events.csv"] || len(after) != 16 {
		t.Errorf("%d files, and events.csv is another: %v",
			len(after), after["events.csv"] != before["events.csv"])
	}
}
