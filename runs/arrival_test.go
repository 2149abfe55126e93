package runs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fetchedCopy copies a complete run with Files, ReadFile and an Arrival, in parts of step bytes.
// After the given number of parts it fails.
func fetchedCopy(from, to, name string, step, parts int) (path string, read int, err error) {
	files, state, err := Files(from, name)
	if err != nil {
		return "", 0, err
	}
	a, err := Receive(to, name, files, state)
	if err != nil {
		return "", 0, err
	}
	defer a.Close()
	for _, f := range a.Lacks() {
		err := a.Put(f, func(offset int64) ([]byte, error) {
			if parts--; parts < 0 {
				return nil, errCut
			}
			b := make([]byte, step)
			n, _, err := ReadFile(from, name, f.Path, offset, b)
			read += n
			return b[:n], err
		})
		if err != nil {
			return "", read, err
		}
	}
	path, err = a.Complete()
	return path, read, err
}

var errCut = errors.New("the connection was cut")

// content returns the content of every file below a directory, by path.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		all[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Fetching copies the files of a run unchanged, and leaves out what was made from the run. If
// fetching is cut off at any point, nothing looks like a run, and fetching again fetches only what
// is missing.
func TestArrival(t *testing.T) {
	dir, _ := completeWith(t)
	from, name := filepath.Split(dir)
	for _, made := range []string{"report.html", "exports/events.csv", "logs/A/x.cplog.part",
		"table.yaml", "truth/A.json"} {
		path := filepath.Join(dir, made)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
			os.WriteFile(path, []byte("made of the run"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	want := content(t, dir)
	for path := range want {
		if CheckFile(path) != nil {
			delete(want, path)
		}
	}
	if len(want) < 3 {
		t.Fatalf("the run has only %d files", len(want))
	}
	const step = 1000
	all := 0
	for _, text := range want {
		all += len(text)
	}
	to := t.TempDir()
	path, read, err := fetchedCopy(from, to, name, step, 1<<30)
	if err != nil || read != all || path != filepath.Join(to, name) {
		t.Fatalf("%q, %d bytes of %d, %v", path, read, all, err)
	}
	if d := cmp.Diff(want, content(t, path)); d != "" {
		t.Errorf("what arrived is not what there was:\n%s", d)
	}
	if _, _, err := fetchedCopy(from, to, name, step, 1); !errors.Is(err, ErrExists) {
		t.Errorf("once more: %v", err)
	}

	parts := 0
	for _, text := range want {
		parts += (len(text) + step - 1) / step
	}
	for cut := range parts {
		to := t.TempDir()
		_, first, err := fetchedCopy(from, to, name, step, cut)
		if !errors.Is(err, errCut) {
			t.Fatalf("cut after %d parts: %v", cut, err)
		}
		if _, err := Open(filepath.Join(to, name)); !errors.Is(err, fs.ErrNotExist) ||
			!strings.Contains(err.Error(), "cprof run fetch "+name) {
			t.Errorf("cut after %d parts, it opens: %v", cut, err)
		}
		if _, err := Open(filepath.Join(to, name+".part")); !errors.Is(err, ErrNotRun) {
			t.Errorf("cut after %d parts, its part opens: %v", cut, err)
		}
		if cut == parts-1 { // a file is too short, as after a crash of the machine
			if err := os.Truncate(filepath.Join(to, name+".part", "truth/A.json"), 3); err != nil {
				t.Fatal(err)
			}
			first -= len(want["truth/A.json"])
		}
		path, second, err := fetchedCopy(from, to, name, step, 1<<30)
		if err != nil || cut > 0 && second >= all || first+second > all+cut*step {
			t.Fatalf("cut after %d parts: %d bytes, then %d of %d, %v", cut, first, second, all,
				err)
		}
		if d := cmp.Diff(want, content(t, path)); d != "" {
			t.Errorf("cut after %d parts:\n%s", cut, d)
		}
	}
}

// If the original changes before all of it has arrived, no file of its earlier state stays.
func TestArrivalOfAnotherState(t *testing.T) {
	dir, segments := completeWith(t)
	from, name := filepath.Split(dir)
	to := t.TempDir()
	_, before, err := Files(from, name)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := fetchedCopy(from, to, name, 1<<20, 3); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "logs/A", segments[0])
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := slices.Clone(text) // of the same length
	other[len(other)/2] ^= 1
	if err := errors.Join(os.Remove(path), os.WriteFile(path, other, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, after, err := Files(from, name); err != nil || after == before {
		t.Fatalf("the state stays %q, %v", after, err)
	}
	arrived, _, err := fetchedCopy(from, to, name, 1<<20, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(content(t, dir), content(t, arrived)); d != "" {
		t.Error(d)
	}
}

func TestArrivalIsRefused(t *testing.T) {
	dir, _ := completeWith(t)
	from, name := filepath.Split(dir)
	whole, state, err := Files(from, name)
	if err != nil {
		t.Fatal(err)
	}
	for what, test := range map[string]struct {
		name  string
		files []File
		want  error
	}{
		"name":        {"../r", whole, ErrName},
		"path":        {name, append(slices.Clone(whole), File{"../x", 1}), ErrName},
		"no run.yaml": {name, []File{{"relations/a--b.rel", 1}}, ErrNotRun},
		"twice":       {name, append(slices.Clone(whole), whole[0]), ErrRun},
		"negative": {name, append(slices.Clone(whole), File{"relations/q--r.rel", -1}),
			ErrRun},
		"state of its own": {name, append(slices.Clone(whole), File{"arriving", 1}), ErrName},
	} {
		a, err := Receive(t.TempDir(), test.name, test.files, state)
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", what, err, test.want)
			if a != nil {
				a.Close()
			}
		}
	}

	to := t.TempDir()
	a, err := Receive(to, name, whole, state)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := Receive(to, name, whole, state); !errors.Is(err, ErrArriving) {
		t.Errorf("two at the same time: %v", err)
	}
	if _, err := a.Complete(); !errors.Is(err, ErrNotComplete) {
		t.Errorf("with nothing: %v", err)
	}
	for what, read := range map[string]func(int64) ([]byte, error){
		"nothing":  func(int64) ([]byte, error) { return nil, nil },
		"too much": func(int64) ([]byte, error) { return make([]byte, 12), nil },
	} {
		if err := a.Put(File{"relations/q--r.rel", 11}, read); !errors.Is(err, ErrRun) {
			t.Errorf("%s comes: %v", what, err)
		}
	}
	// If run.yaml is not valid, Complete returns an error and removes run.yaml.
	for _, f := range a.Lacks() {
		if err := a.Put(f, func(offset int64) ([]byte, error) {
			return bytes.Repeat([]byte{'x'}, int(f.Bytes-offset)), nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Complete(); !errors.Is(err, ErrRun) {
		t.Errorf("of nonsense: %v", err)
	}
	if lacks := a.Lacks(); len(lacks) != 1 || lacks[0].Path != "run.yaml" {
		t.Errorf("then it lacks %v", lacks)
	}

	// Receive refuses the name of a run that this machine's own server is writing.
	own := t.TempDir()
	r := exampleRun()
	r.Name = name
	d, err := Create(own, r)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := Receive(own, name, whole, state); !errors.Is(err, ErrExists) {
		t.Errorf("into a run that is being written: %v", err)
	}
	if _, _, err := Files(own, name); !errors.Is(err, ErrNotComplete) {
		t.Errorf("files of a run that is being written: %v", err)
	}
	if _, _, err := ReadFile(own, name, "run.yaml", 0, nil); !errors.Is(err, ErrNotComplete) {
		t.Errorf("a file of a run that is being written: %v", err)
	}
	for _, path := range []string{"/etc/passwd", "../x", "report.html"} {
		if _, _, err := ReadFile(from, name, path, 0, nil); !errors.Is(err, ErrName) {
			t.Errorf("file %q: %v", path, err)
		}
	}
	if _, _, err := Files(from, "nobody"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("files of nobody: %v", err)
	}
}

// CheckFile accepts only run.yaml, table.yaml, and files in the directories for relations, logs,
// baselines and truth. No accepted path leads out of the run.
func FuzzCheckFile(f *testing.F) {
	for _, path := range []string{"run.yaml", "table.yaml", "relations/a--b@1-2.rel",
		"relations/x--y--z~4.rel", "logs/n/parser#3~start.0123.000001.cplog",
		"logs/n/manifest.txt", "baselines/n.ntp", "truth/n.json", "", ".", "/", "..", "../run.yaml",
		"./run.yaml", "logs/../run.yaml", "logs/n/x.cplog.part", "logs/n/../../x.cplog",
		"report.html", "exports/x", "arriving", "logs/.n/x.cplog", "relations/.rel",
		"relations/a\x00b.rel", "relations/\u202eb.rel"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if CheckFile(name) != nil {
			return
		}
		parts := strings.Split(name, "/")
		if !filepath.IsLocal(name) || filepath.Clean(name) != name || len(parts) > 3 ||
			strings.HasSuffix(name, incompleteEnd) || name == stateFile ||
			len(parts[len(parts)-1]) > 255 {
			t.Errorf("%q is accepted", name)
		}
		for _, p := range parts {
			if p == "" || p[0] == '.' || p[0] == '-' {
				t.Errorf("%q is accepted", name)
			}
		}
		switch parts[0] {
		case "run.yaml", "table.yaml", "relations", "logs", "baselines", "truth":
		default:
			t.Errorf("%q is accepted", name)
		}
	})
}
