package runs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// Each pair of nodes has a file of its own, even if the nodes' names contain dashes.
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
	// Earlier versions wrote x--y--z.rel, both for the pair x and y--z and for the pair x--y and z.
	// The package still reads such a file, whichever pair it contains.
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

// The package can read every run.yaml that it writes. It refuses a change that would make run.yaml
// too long. If too many parts are missing, it keeps the beginning of the list.
func TestRunIsNeverTooLongToBeRead(t *testing.T) {
	parent := t.TempDir()
	d, err := Create(parent, exampleRun())
	if err != nil {
		t.Fatal(err)
	}
	err = d.Update(func(r *Run) {
		r.Nodes[0].Facts = map[string]string{"x": strings.Repeat("x", 17<<20)}
	})
	if !errors.Is(err, ErrRun) || !strings.Contains(err.Error(), "at most 16777216 are read") {
		t.Errorf("a fact of 17 MB: %v", err)
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

// If a report cannot be written, the old report stays.
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

// The package reads no file that is longer than its limit.
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
		!strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("%v, %v", f, err)
	}
}

// The new files of an export table replace the old ones all at once. Until then the old table
// stays.
func TestExportTables(t *testing.T) {
	parent := t.TempDir()
	draft, err := Create(parent, exampleRun())
	if err != nil {
		t.Fatal(err)
	}
	defer draft.Close()
	d, err := Open(draft.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	exports := filepath.Join(draft.Path(), "exports")
	has := func(want ...string) {
		t.Helper()
		var got []string
		err := filepath.WalkDir(exports, func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				text, err := os.ReadFile(path)
				got = append(got, strings.TrimPrefix(path, exports+"/")+" "+string(text))
				return err
			}
			return err
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("exports are %q, want %q; %v", got, want, err)
		}
	}
	write := func(text string, names ...string) *ExportTable {
		t.Helper()
		table, err := d.CreateExportTable("events")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			f, err := table.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString(text); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
		return table
	}
	if err := write("old", "part=0/x", "part=1/x").Finish(); err != nil {
		t.Fatal(err)
	}
	has("events/part=0/x old", "events/part=1/x old")
	write("left by a writer that died", "part=7/x").lock.Close()
	table := write("new", "part=0/x")
	if _, err := d.CreateExportTable("events"); !errors.Is(err, ErrBusy) {
		t.Errorf("a second writer: %v", err)
	}
	has("events/part=0/x old", "events/part=1/x old", "events.part/part=0/x new")
	if err := table.Finish(); err != nil {
		t.Fatal(err)
	}
	has("events/part=0/x new")
	if err := write("abandoned", "part=0/x", "part=1/x").Abandon(); err != nil {
		t.Fatal(err)
	}
	has("events/part=0/x new")
	for _, name := range []string{"", "../logs", "a/b"} {
		if _, err := d.CreateExportTable(name); !errors.Is(err, ErrName) {
			t.Errorf("a table %q: %v", name, err)
		}
	}
	if _, err := table.Create("../../../x"); err == nil {
		t.Error("a file is created outside of the run")
	}
}

// If two writers write the same file at the same time, the second is refused, and the first
// completes its file. A file that a dead writer left does not hinder the next writer.
func TestTwoExportsAtOnce(t *testing.T) {
	draft, err := Create(t.TempDir(), exampleRun())
	if err != nil {
		t.Fatal(err)
	}
	defer draft.Close()
	var dirs [2]*Directory
	for i := range dirs {
		if dirs[i], err = Open(draft.Path()); err != nil {
			t.Fatal(err)
		}
		defer dirs[i].Close()
	}
	path := filepath.Join(draft.Path(), "exports", "events.csv")
	for _, left := range []func() error{
		func() error { return nil },
		func() error { return os.WriteFile(path+".part", []byte("dead"), 0o600) },
		func() error { return os.Symlink("../run.yaml", path+".part") },
		func() error { return os.Symlink("/etc/passwd", path+".part") },
		func() error { return os.Symlink("nothing", path+".part") },
		func() error { return unix.Mkfifo(path+".part", 0o600) },
	} {
		if err := left(); err != nil {
			t.Fatal(err)
		}
		first, err := dirs[0].CreateExport("events.csv")
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range dirs {
			if _, err := d.CreateExport("events.csv"); !errors.Is(err, ErrBusy) {
				t.Errorf("a second writer: %v", err)
			}
		}
		if _, err := io.WriteString(first, "whole"); err != nil {
			t.Fatal(err)
		}
		if err := first.Finish(); err != nil {
			t.Error(err)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != "whole" {
			t.Errorf("the file is %q, %v", text, err)
		}
	}
	second, err := dirs[1].CreateExport("events.csv")
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Abandon(); err != nil {
		t.Error(err)
	}
}

// If many writers begin and finish the same file all the time, no file is ever cut or mixed.
func TestManyExportsAtOnce(t *testing.T) {
	draft, err := Create(t.TempDir(), exampleRun())
	if err != nil {
		t.Fatal(err)
	}
	defer draft.Close()
	path := filepath.Join(draft.Path(), "exports", "x")
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			d, err := Open(draft.Path())
			if err != nil {
				t.Error(err)
				return
			}
			defer d.Close()
			for left := 100; left > 0; {
				f, err := d.CreateExport("x")
				if errors.Is(err, ErrBusy) {
					runtime.Gosched()
					continue
				}
				left--
				if err == nil {
					_, err = io.WriteString(f, strings.Repeat(string(rune('a'+i)), 1000))
				}
				if err == nil {
					err = f.Finish()
				}
				if err != nil {
					t.Error(err)
					return
				}
				text, err := os.ReadFile(path)
				if err != nil || len(text) != 1000 || bytes.Count(text, text[:1]) != 1000 {
					t.Errorf("the file has %d bytes: %.20q, %v", len(text), text, err)
				}
			}
		})
	}
	all.Wait()
}
