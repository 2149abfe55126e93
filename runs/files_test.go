package runs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// Nodes with dashes in their names share no file with others.
func TestEachPairHasAFileOfItsOwn(t *testing.T) {
	names := []string{"x", "y", "z", "x-", "x--y", "y--z", "x--y--z", "x---y", "y-", "x--y-", "z--"}
	files := map[string][2]string{}
	for _, a := range names {
		for _, b := range names {
			if a == b {
				continue
			}
			path := RelationPath(a, b)
			if other, ok := files[path]; ok {
				t.Errorf("%q with %q and %q with %q share %q", a, b, other[0], other[1], path)
			}
			files[path] = [2]string{a, b}
		}
	}
	if got := RelationPath("node-a", "node-b"); got != "relations/node-a--node-b.rel" {
		t.Errorf("plain names are in %q", got)
	}
	// An earlier version's x--y--z.rel is read, whichever pair it is of.
	r := exampleRun()
	r.Reference, r.Nodes[0].Name, r.Nodes[1].Name, r.Missing = "", "x--y", "z", nil
	parent := t.TempDir()
	d, err := Create(parent, r)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.PutRelation(pairOf(t, r)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"x--y--z~4.rel", "x--y--z.rel"} {
		dir, err := Open(d.Path())
		if err != nil {
			t.Fatal(err)
		}
		if pairs, missing := dir.Relations(); len(pairs) != 1 || len(missing) > 0 {
			t.Errorf("%s: %d relations, missing %v", name, len(pairs), missing)
		}
		dir.Close()
		at := filepath.Join(d.Path(), "relations", "x--y--z")
		if err := os.Rename(at+"~4.rel", at+".rel"); err != nil && name == "x--y--z~4.rel" {
			t.Fatal(err)
		}
	}
	d.Close()
}

// What is written can be read again. A change that would make run.yaml too long is refused. If too
// much is missing, the beginning of the list is kept.
func TestRunIsNeverTooLongToBeRead(t *testing.T) {
	parent := t.TempDir()
	d, err := Create(parent, exampleRun())
	if err != nil {
		t.Fatal(err)
	}
	err = d.Update(func(r *Run) {
		r.Nodes[0].Facts = map[string]string{"x": strings.Repeat("x", 5<<20)}
	})
	if !errors.Is(err, ErrRun) || !strings.Contains(err.Error(), "at most 4194304 are read") {
		t.Errorf("a fact of 5 MB: %v", err)
	}
	if err := d.Update(func(r *Run) {
		r.Note = "after it"
		for i := range 50_000 {
			r.Missing = append(r.Missing, Missing{
				fmt.Sprintf("relations/%d.rel", i), strings.Repeat("\x01", 200),
			})
		}
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Complete(); err != nil {
		t.Fatal(err)
	}
	dir, err := Open(filepath.Join(parent, "tuesday-1.b"))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	last := dir.Run.Missing[len(dir.Run.Missing)-1]
	if dir.Run.Note != "after it" || dir.Run.Nodes[0].Facts["x"] != "" ||
		len(dir.Run.Missing) < 1000 || !strings.Contains(last.Reason, "more parts are missing") {
		t.Errorf("note %q, %d missing, the last %v", dir.Run.Note, len(dir.Run.Missing), last)
	}
}

func TestNodeWithoutLogsLacksNone(t *testing.T) {
	r := exampleRun()
	r.Missing = nil
	for i := range r.Nodes {
		r.Nodes[i].NoLogs = i == 1
	}
	d, err := Create(t.TempDir(), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.PutRelation(pairOf(t, r)); err != nil {
		t.Fatal(err)
	}
	missing, err := d.Complete()
	if diff := cmp.Diff([]Missing{{"logs/A", "no log of this node was collected"}},
		missing); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if _, err := os.Stat(filepath.Join(d.Path(), "run.yaml")); err != nil {
		t.Error("the complete run's path:", err)
	}
}

// If a page cannot be written, the old one stays.
func TestReportIsWrittenWhole(t *testing.T) {
	draft, err := Create(t.TempDir(), exampleRun())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := draft.Complete(); err != nil {
		t.Fatal(err)
	}
	d, err := Open(draft.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	path := filepath.Join(draft.Path(), "report.html")
	holds := func(want string) {
		t.Helper()
		if page, err := os.ReadFile(path); err != nil || string(page) != want {
			t.Errorf("it holds %q, want %q, %v", page, want, err)
		}
	}
	for _, page := range []string{"first", "second"} {
		if err := d.WriteReport([]byte(page)); err != nil {
			t.Fatal(err)
		}
		holds(page)
	}
	if err := os.MkdirAll(filepath.Join(path+".part", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteReport([]byte("third")); err == nil {
		t.Error("nothing was in the way")
	}
	holds("second")
}

// A file beyond its limit is not read, and nothing waits for a file that is not regular.
func TestNothingIsReadBeyondItsLimit(t *testing.T) {
	for name, most := range map[string]int64{runFile: maxRunBytes, tableFile: maxTableBytes,
		TruthPath("A"): maxTruthBytes, RelationPath("A", "B.b_2"): maxRelationBytes} {
		parent := t.TempDir()
		draft, err := Create(parent, exampleRun())
		if err != nil {
			t.Fatal(err)
		}
		draft.Close()
		dir, err := Open(draft.Path())
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(draft.Path(), filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
			os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40)); err != nil {
			t.Fatal(err)
		}
		if text, err := readFile(dir.root, name, most); text != nil || err == nil ||
			!strings.Contains(err.Error(), "1099511627776 bytes long, at most") {
			t.Errorf("%s of 1 TiB: %d bytes, %v", name, len(text), err)
		}
		if err := os.Truncate(path, 5); err != nil {
			t.Fatal(err)
		}
		if text, err := readFile(dir.root, name, 5); len(text) != 5 || err != nil {
			t.Errorf("%s of 5 bytes: %d, %v", name, len(text), err)
		}
		dir.Close()
	}
}

func TestABaselineThatIsAPipeIsNotWaitedFor(t *testing.T) {
	draft, err := Create(t.TempDir(), exampleRun())
	if err != nil {
		t.Fatal(err)
	}
	draft.Close()
	dir, err := Open(draft.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	path := filepath.Join(draft.Path(), filepath.FromSlash(BaselinePath("A")))
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
		unix.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if f, err := dir.OpenBaseline("A"); f != nil || err == nil ||
		!strings.Contains(err.Error(), "no regular file") {
		t.Errorf("%v, %v", f, err)
	}
}
