package coordinator

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// read asks the server for a part of a file, as a command does, and returns the answer.
func (f *fleet) read(m *control.ReadFile) control.Message {
	f.asks++
	f.core.handle(control.Incoming{Peer: "admin", Request: f.asks, Message: m})
	return f.asked[f.asks]
}

// A command gets the files of a complete run, and nothing else.
func TestFilesOfARun(t *testing.T) {
	f := newFleet(t, testConfig(), "a", "b")
	f.openRun("r")
	list := func(name string) control.Message { return f.ask(AskRunFiles, RunRequest{Name: name}) }
	wantCode := func(what string, m control.Message, code control.Code) {
		t.Helper()
		if r, ok := m.(*control.Refusal); !ok || r.Code != code {
			t.Errorf("%s: %+v, want a refusal: %v", what, m, code)
		}
	}
	wantCode("an open run", list("r"), control.NotNow)
	wantCode("a file of an open run",
		f.read(&control.ReadFile{Run: "r", Path: "run.yaml", Bytes: 9}), control.NotNow)
	f.ask(AskStopRun, nil)
	f.waitComplete()
	dir := filepath.Join(f.core.store.runs, "r")
	relation := filepath.Join(dir, "relations", "a--b.rel")
	if err := os.WriteFile(relation, bytes.Repeat([]byte("0123456"), 50), 0o600); err != nil {
		t.Fatal(err)
	}

	files := answered[RunFiles](t, list("r"))
	if files.Run != "r" || len(files.State) != 64 || len(files.Files) < 2 {
		t.Errorf("%+v", files)
	}
	for _, file := range files.Files {
		want, err := os.ReadFile(filepath.Join(dir, file.Path))
		if err != nil || int64(len(want)) != file.Bytes {
			t.Fatalf("%+v has %d bytes, %v", file, len(want), err)
		}
		var got []byte
		for offset := int64(0); offset < file.Bytes; {
			m := f.read(&control.ReadFile{Run: "r", Path: file.Path, Offset: offset, Bytes: 100})
			chunk, ok := m.(*control.Chunk)
			if !ok || chunk.Path != file.Path || chunk.Offset != offset ||
				chunk.Size != file.Bytes || len(chunk.Data) == 0 || len(chunk.Data) > 100 {
				t.Fatalf("%q at %d: %+v", file.Path, offset, m)
			}
			got = append(got, chunk.Data...)
			offset += int64(len(chunk.Data))
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%q comes with other bytes", file.Path)
		}
	}
	wantCode("no such run", list("x"), control.NotFound)
	wantCode("no name of a run", list("../r"), control.Malformed)
	for path, code := range map[string]control.Code{
		"logs/a/none.cplog": control.NotFound, "report.html": control.Malformed,
		"logs/../../state": control.Malformed,
	} {
		wantCode(path, f.read(&control.ReadFile{Run: "r", Path: path, Bytes: 9}), code)
	}
	wantCode("no run", f.read(&control.ReadFile{Run: "x", Path: "run.yaml", Bytes: 9}),
		control.NotFound)
}

// A command that asks for many parts at once cannot fill the server's memory.
func TestPartsThatAreReadAreFew(t *testing.T) {
	f := newFleet(t, testConfig(), "a", "b")
	f.openRun("r")
	f.ask(AskStopRun, nil)
	f.waitComplete()
	var works []func()
	f.core.background = func(work func() error, done func(error)) {
		works = append(works, func() { done(work()) })
	}
	ask := &control.ReadFile{Run: "r", Path: "run.yaml", Bytes: 9}
	for range maxReading {
		if m := f.read(ask); m != nil {
			t.Fatalf("answered at once: %+v", m)
		}
	}
	m, ok := f.read(ask).(*control.Refusal)
	if !ok || m.Code != control.NotNow || !strings.Contains(m.Text, "ask again") {
		t.Errorf("one more: %+v", m)
	}
	for _, work := range works {
		work()
	}
	f.core.background = func(work func() error, done func(error)) { done(work()) }
	if _, ok := f.read(ask).(*control.Chunk); !ok {
		t.Errorf("later: %+v", f.read(ask))
	}
	if code, _ := whyNoFile("r", errors.New("input/output error")); code != control.Failed {
		t.Errorf("another error is %v", code)
	}
}
