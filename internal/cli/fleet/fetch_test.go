package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/testimony"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// A run of the server arrives on an admin's machine, over the encrypted link.
func TestRunFetch(t *testing.T) {
	f := startAFleet(t, "alpha", "beta")
	local := filepath.Join(t.TempDir(), "own", "runs")
	t.Setenv("CLOUDPROFILER_RUNS", local)
	f.join("alpha")
	f.join("beta")
	f.want(command.Usage, "NAME is missing", "run", "fetch")
	f.want(command.Usage, `check run name "../x"`, "run", "fetch", "../x")
	f.want(command.Failed, `there is no run "tuesday"`, "run", "fetch", "tuesday")
	f.want(command.Answered, "open", "run", "start", "tuesday")
	f.want(command.Failed, `run "tuesday" is not complete`, "run", "fetch", "tuesday")
	f.want(command.Answered, "complete", "run", "stop")

	const none = ":4\n" // what a shell gets if it gets no names
	complete := func(want string, typed ...string) {
		t.Helper()
		// A shell also gets no names if the server is late, as on a busy machine. Then ask again.
		testimony.WaitFor(t, "names for a shell", func() bool {
			code, out, _ := cprof(append([]string{"__complete"}, typed...)...)
			late := out == none && want != none
			if code != 0 || out != want && !late {
				t.Errorf("%q: exit code %d, %q, want %q", typed, code, out, want)
			}
			return !late
		})
	}
	complete("tuesday\n:4\n", "run", "fetch", "")
	complete("tuesday\n:4\n", "run", "rm", "t")
	complete(none, "run", "rm", "tuesday", "")
	complete(none, "run", "collect", "") // the run lacks nothing to collect
	complete("alpha\nbeta\n:4\n", "node", "forget", "")
	complete("beta\n:4\n", "node", "forget", "alpha", "")
	complete("beta\n:4\n", "run", "start", "x", "--reference", "b")
	arrived := filepath.Join(local, "tuesday")
	f.want(command.Answered, arrived+": 0.0 MB in ", "run", "fetch", "tuesday")
	for _, name := range []string{"run.yaml", "relations/alpha--beta.rel"} {
		want, err := os.ReadFile(filepath.Join(f.runs, "tuesday", name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(local, "tuesday", name)); err != nil ||
			string(got) != string(want) {
			t.Errorf("%s is not what the server has: %v", name, err)
		}
	}
	if dir, err := command.OpenRun("tuesday"); err != nil || !dir.Complete {
		t.Errorf("it does not open by its name: %v", err)
	} else {
		dir.Close()
	}
	complete(none, "run", "fetch", "") // the run is already on this machine
	f.want(command.Failed, "remove it to fetch the run again", "run", "fetch", "tuesday")
	t.Setenv("CLOUDPROFILER_KEY", f.key("alpha.secret"))
	t.Setenv("CLOUDPROFILER_RUNS", t.TempDir())
	f.want(command.Failed, "not allowed", "run", "fetch", "tuesday")
	complete(none, "run", "fetch", "") // a key that may not list runs: no error
	t.Setenv("CLOUDPROFILER_KEY", "/nothing/there")
	complete(none, "run", "fetch", "")
}

// madeUp takes the place of a server, and gives the answers that a test puts into it.
type madeUp struct {
	list   coordinator.RunFiles
	lists  int // how often it was asked for its list
	after  string
	answer func(*control.ReadFile) (control.Message, error)
}

func (m *madeUp) Ask(_ context.Context, _ string, _, result any) error {
	list := m.list
	if m.lists++; m.lists > 1 && m.after != "" {
		list.State = m.after
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, result)
}

func (m *madeUp) Call(_ context.Context, question control.Message) (control.Message, error) {
	return m.answer(question.(*control.ReadFile))
}

const aRunYAML = "version: 1\nname: r\nbegun:\n  lo_ns: 1\n  hi_ns: 2\nwander_ppt: 1000000\n" +
	"window_ns: 10000000000\n"

// honestServer answers with a run of two files.
func honestServer() *madeUp {
	content := map[string]string{"run.yaml": aRunYAML,
		"relations/a--b.rel": strings.Repeat("x", 3<<20)}
	m := &madeUp{list: coordinator.RunFiles{Run: "r", State: "s"}}
	for _, path := range []string{"run.yaml", "relations/a--b.rel"} {
		m.list.Files = append(m.list.Files,
			control.File{Path: path, Bytes: int64(len(content[path]))})
	}
	m.answer = func(r *control.ReadFile) (control.Message, error) {
		text := content[r.Path]
		return &control.Chunk{Path: r.Path, Offset: r.Offset, Size: int64(len(text)),
			Data: []byte(text[r.Offset:min(r.Offset+r.Bytes, int64(len(text)))])}, nil
	}
	return m
}

func aFetch(from asker) *runFetcher {
	return &runFetcher{link: from, name: "r", show: func(float64, string) {}, limit: time.Minute}
}

// Whatever a server answers, the fetched run never looks whole unless it is whole.
func TestFetchFromABadServer(t *testing.T) {
	seed.NotUnderRace(t, "nothing runs side by side")
	first := func(change func(*control.Chunk)) func(*madeUp) {
		return func(m *madeUp) {
			answer := m.answer
			m.answer = func(r *control.ReadFile) (control.Message, error) {
				c, err := answer(r)
				if r.Path == "relations/a--b.rel" && r.Offset > 0 {
					change(c.(*control.Chunk))
				}
				return c, err
			}
		}
	}
	lost := errors.New("no answer")
	for name, test := range map[string]struct {
		change func(*madeUp)
		say    string // "": it succeeds
	}{
		"honest": {func(*madeUp) {}, ""},
		"two answers are lost": {func(m *madeUp) {
			answer, n := m.answer, 0
			m.answer = func(r *control.ReadFile) (control.Message, error) {
				if n++; n == 2 || n == 3 {
					return nil, lost
				}
				return answer(r)
			}
		}, ""},
		"no answer": {func(m *madeUp) {
			m.answer = func(*control.ReadFile) (control.Message, error) { return nil, lost }
		}, "type the command again"},
		"a refusal": {func(m *madeUp) {
			n := 0
			m.answer = func(*control.ReadFile) (control.Message, error) {
				if n++; n > 1 {
					t.Error("it is asked again")
				}
				return nil, &control.RefusedError{Refusal: control.Refusal{Code: control.NotFound}}
			}
		}, "not found"},
		"busy at first": {func(m *madeUp) {
			answer, n := m.answer, 0
			m.answer = func(r *control.ReadFile) (control.Message, error) {
				if n++; n == 1 {
					return nil, &control.RefusedError{Refusal: *control.Refuse(control.NotNow, "")}
				}
				return answer(r)
			}
		}, ""},
		"another message": {func(m *madeUp) {
			m.answer = func(*control.ReadFile) (control.Message, error) {
				return &control.Pong{}, nil
			}
		}, "answers with pong"},
		"another file": {first(func(c *control.Chunk) { c.Path = "run.yaml" }),
			"it changed there"},
		"another place": {first(func(c *control.Chunk) { c.Offset++ }), "it changed there"},
		"it grows":      {first(func(c *control.Chunk) { c.Size++ }), "it changed there"},
		"nothing":       {first(func(c *control.Chunk) { c.Data = nil }), "0 bytes came"},
		"more": {first(func(c *control.Chunk) { c.Data = make([]byte, 9<<20) }),
			"bytes came"},
		"it changes":     {func(m *madeUp) { m.after = "s2" }, "it changed on the server"},
		"another run":    {func(m *madeUp) { m.list.Run = "x" }, `lists run "x"`},
		"no state":       {func(m *madeUp) { m.list.State = "" }, "the server lists"},
		"a path outside": {func(m *madeUp) { m.list.Files[1].Path = "../../evil" }, "no such file"},
		"no run.yaml":    {func(m *madeUp) { m.list.Files = m.list.Files[1:] }, "no run.yaml"},
		"longer than any disk": {func(m *madeUp) { m.list.Files[1].Bytes = 1 << 60 },
			"make room"},
		"longer than any number": {func(m *madeUp) { m.list.Files[1].Bytes = math.MaxInt64 },
			"lists a file of"},
		"too many files": {func(m *madeUp) {
			m.list.Files = slices.Repeat(m.list.Files, maxFetchedFiles)
		}, "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			server, parent := honestServer(), t.TempDir()
			test.change(server)
			path, err := aFetch(server).fetchInto(t.Context(), parent)
			if test.say == "" {
				if err != nil || path != filepath.Join(parent, "r") {
					t.Errorf("%q, %v", path, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.say) {
				t.Errorf("%v, want %q", err, test.say)
			}
			if _, err := os.Lstat(filepath.Join(parent, "r")); !os.IsNotExist(err) {
				t.Errorf("a run is there: %v", err)
			}
			if outside, _ := filepath.Glob(filepath.Join(parent, "..", "evil")); len(outside) > 0 {
				t.Error("a file lies outside")
			}
		})
	}
}

// If the user interrupts a fetch, it ends at once, and can be continued.
func TestFetchIsCut(t *testing.T) {
	server, parent := honestServer(), t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	answer := server.answer
	server.answer = func(r *control.ReadFile) (control.Message, error) {
		if r.Offset > 0 {
			cancel()
			return nil, ctx.Err()
		}
		return answer(r)
	}
	if _, err := aFetch(server).fetchInto(ctx, parent); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	server.answer = answer
	if _, err := aFetch(server).fetchInto(t.Context(), parent); err != nil {
		t.Fatal(err)
	}
}

// Whatever list a server sends, the fetch writes exactly the files in the list, or refuses the
// list. It writes nothing outside of the run's directory.
func FuzzFetch(f *testing.F) {
	for _, list := range []coordinator.RunFiles{honestServer().list, {}, {Run: "r", State: "s",
		Files: []control.File{{Path: "run.yaml", Bytes: int64(len(aRunYAML))},
			{Path: "logs/n/x.cplog", Bytes: 5}, {Path: "../x", Bytes: 1}}}} {
		text, err := json.Marshal(list)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, int64(7))
	}
	f.Fuzz(func(t *testing.T, text []byte, step int64) {
		m := honestServer()
		if json.Unmarshal(text, &m.list) != nil {
			return
		}
		total := int64(0)
		sizes := map[string]int64{}
		for _, file := range m.list.Files {
			sizes[file.Path] = file.Bytes
			if total += file.Bytes; file.Bytes > 1<<20 || total > 1<<20 {
				return
			}
		}
		m.answer = func(r *control.ReadFile) (control.Message, error) {
			data := []byte(aRunYAML)
			if r.Path != "run.yaml" {
				data = make([]byte, sizes[r.Path])
			}
			if int64(len(data)) < r.Offset {
				return nil, errors.New("beyond the end")
			}
			data = data[r.Offset:]
			return &control.Chunk{Path: r.Path, Offset: r.Offset, Size: sizes[r.Path],
				Data: data[:min(int64(len(data)), r.Bytes, max(step, 1<<12))]}, nil
		}
		top := t.TempDir()
		parent := filepath.Join(top, "a", "runs")
		path, err := aFetch(m).fetchInto(t.Context(), parent)
		entries, readErr := os.ReadDir(top)
		if readErr != nil || len(entries) > 1 || len(entries) == 1 && entries[0].Name() != "a" {
			t.Fatalf("beside the runs are %v, %v", entries, readErr)
		}
		if err != nil {
			if _, err := runs.Open(filepath.Join(parent, "r")); err == nil {
				t.Fatal("a fetch that failed left a run")
			}
			return
		}
		for _, file := range m.list.Files {
			info, err := os.Lstat(filepath.Join(path, file.Path))
			if err != nil || info.Size() != file.Bytes {
				t.Fatalf("%+v: %v", file, err)
			}
		}
	})
}

// A shell does not wait for a server that does not answer.
func TestCompletionDoesNotWait(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	t.Setenv("CLOUDPROFILER_SERVER", silent.Addr().String())
	began := time.Now()
	code, out, _ := cprof("__complete", "run", "fetch", "")
	if took := time.Since(began); code != 0 || out != ":4\n" || took > 10*completionLimit {
		t.Errorf("exit code %d, %q, after %v", code, out, took)
	}
}
