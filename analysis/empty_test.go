package analysis

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// withoutRows has functions that damage a log so that none of its rows can be read. Each returns
// the damaged content, or nil if the file is to be removed.
var withoutRows = map[string]func(t *testing.T, path string, log []byte) []byte{
	"every block flipped": func(t *testing.T, path string, log []byte) []byte {
		for i := headerBytes(t, path) + 8; i < len(log); i += 16 {
			log[i] ^= 1
		}
		return log
	},
	"cut in its first block": func(t *testing.T, path string, log []byte) []byte {
		return log[:headerBytes(t, path)+20]
	},
	"cut behind its header": func(t *testing.T, path string, log []byte) []byte {
		return log[:headerBytes(t, path)]
	},
	"cut in its header": func(t *testing.T, _ string, log []byte) []byte { return log[:10] },
	"overwritten":       func(*testing.T, string, []byte) []byte { return []byte("hello") },
	"gone":              func(*testing.T, string, []byte) []byte { return nil },
}

// headerBytes is the length of the header of a log.
func headerBytes(t *testing.T, path string) int {
	t.Helper()
	empty := filepath.Join(t.TempDir(), filepath.Base(path))
	w := onlyHeader(t, path, empty)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(empty)
	if err != nil {
		t.Fatal(err)
	}
	return int(info.Size())
}

// onlyHeader begins a log with the header of another log.
func onlyHeader(t *testing.T, of, path string) *logstore.Writer {
	t.Helper()
	f, err := logstore.OpenFile(of)
	if err != nil {
		t.Fatal(err)
	}
	header := f.Header()
	f.Close()
	w, err := logstore.Create(nil, path, header)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// harmLog applies a change of withoutRows to the one log of a node.
func harmLog(t *testing.T, run, node string, change func(*testing.T, string, []byte) []byte) {
	t.Helper()
	dir := filepath.Join(run, "logs", node)
	if err := logstore.ExtendManifest(dir, nil); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "*"+logstore.Suffix))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	log, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	if log = change(t, found[0], log); log == nil {
		err = os.Remove(found[0])
	} else {
		err = os.WriteFile(found[0], log, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// If no row of a point can be read, the run still has the point. The answer names its log, says
// that paths may go on there, and does not call a path whole or a tuple lost.
func TestALogWithoutRows(t *testing.T) {
	seed.NotUnderRace(t, "TestAnswersEqualOracle analyzes side by side too")
	for name, change := range withoutRows {
		for _, node := range []string{"A", "B", "C"} {
			for _, edges := range [][][2]string{nil, chainEdges} {
				t.Run(name+" of "+node, func(t *testing.T) {
					run := aChain(t)
					dropTuples(t, run, node)
					harmLog(t, run, node, change)
					checkWithoutRows(t, analyze(t, openRun(t, filepath.Dir(run), "chain"),
						Options{Edges: edges}), node, edges != nil)
				})
			}
		}
	}
}

// dropTuples removes ten tuples from the log of B, or, if B is the node with the harmed log, from
// the log of C. So ten tuples seem to end at the previous point.
func dropTuples(t *testing.T, run, harmed string) {
	t.Helper()
	node := "B"
	if harmed == "B" {
		node = "C"
	}
	rewrite(t, run, node, func(events []logstore.Event) []logstore.Event {
		return slices.Delete(events, 100, 110)
	})
}

func checkWithoutRows(t *testing.T, a *Answer, node string, placed bool) {
	t.Helper()
	name := map[string]string{"A": "stage0", "B": "stage1", "C": "stage2"}[node]
	said := len(a.Findings) > 0 && strings.Contains(a.Findings[0].Text,
		"the log of "+name+"/recv on node "+node+" has no row that can be used: paths may")
	if !a.Partial || said == placed || placed != mentions(a, "has no row that can be used: which") {
		t.Errorf("partial %v, findings %v", a.Partial, a.Findings)
	}
	if len(a.Points) != 3 {
		t.Errorf("points %+v", a.Points)
	}
	for _, p := range a.Points {
		if p.Lost > 0 && p.Undecided == "" || p.Filtered > 0 {
			t.Errorf("%d lost and %d filtered at %s, and nothing is undecided", p.Lost, p.Filtered,
				p.Name)
		}
		if !placed && (p.Completeness.Kept != Unknown || p.Undecided == "") {
			t.Errorf("%s has %v, undecided %q", p.Name, p.Completeness, p.Undecided)
		}
	}
	for _, p := range a.Paths {
		if p.Whole > 0 && !(placed && node == "B") {
			t.Errorf("%d tuples from %v to %v are called whole", p.Whole, p.From, p.To)
		}
	}
	for _, s := range slices.Concat(a.Spans, a.EndToEnd) {
		if s.Completeness.Kept == All && !placed {
			t.Errorf("all durations from %s to %s are said to be there", s.From, s.To)
		}
	}
	if placed && node != "B" && len(a.EndToEnd) > 0 {
		t.Errorf("durations end to end: %+v", a.EndToEnd)
	}
}

// A channel logged nothing. If its log was ended, a note names the channel, and the answer is as
// certain as without the channel. If the log was not ended, its rows may be cut off.
func TestAnUnusedChannel(t *testing.T) {
	for _, sealed := range []bool{true, false} {
		channels := channelsOf([]uint64{1, 2, 3}, []uint64{1, 2, 3})
		channels = append(channels, simrun.Channel{Name: "error/recv",
			Records: channels[0].Records[:1]})
		dir := write(t, channels...)
		found, err := filepath.Glob(filepath.Join(dir.Path, "logs/A/error*"))
		if err != nil || len(found) != 1 {
			t.Fatalf("%v, %v", found, err)
		}
		empty := found[0] + ".new"
		w := onlyHeader(t, found[0], empty)
		if sealed {
			err = w.Seal()
		} else {
			err = w.Close()
		}
		all := func(logstore.Segment) bool { return true }
		if err := errors.Join(err, os.Rename(empty, found[0]),
			logstore.ExtendManifest(filepath.Dir(empty), all)); err != nil {
			t.Fatal(err)
		}
		a := analyze(t, dir, Options{})
		const log = "the log of error/recv on node A has no row"
		unused, cut := mentions(a, log+": nothing was logged there"), mentions(a, log+" that can")
		if unused != sealed || cut == sealed || a.Partial == sealed ||
			(a.Paths[0].Whole == 3) != sealed {
			t.Errorf("sealed %v: findings %v, missing %v, paths %+v", sealed, a.Findings,
				a.Missing, a.Paths)
		}
	}
}

// damageSomeLog makes the rows of a random channel of events unreadable. It returns the channel's
// point.
func damageSomeLog(t *testing.T, rng *rand.Rand, dir *runs.Directory) string {
	t.Helper()
	logs, _ := dir.Logs()
	var segments []logstore.Segment
	for _, l := range logs {
		for _, s := range l.Segments {
			if s.Channel.Point != "link" {
				segments = append(segments, s)
			}
		}
	}
	s := segments[rng.IntN(len(segments))]
	log, err := os.ReadFile(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	ways := []string{"every block flipped", "cut in its first block", "cut behind its header"}
	way := ways[rng.IntN(len(ways))]
	t.Logf("%s: %s", s.Path, way)
	if err := os.WriteFile(s.Path, withoutRows[way](t, s.Path, log), 0o600); err != nil {
		t.Fatal(err)
	}
	return pointOf(s).String()
}
