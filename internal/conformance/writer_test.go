package conformance

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

const writerVariable = "CLOUDPROFILER_CONFORMANCE_WRITER"

func TestMain(m *testing.M) {
	if os.Getenv(writerVariable) != "" {
		beWriter(os.Stdin, os.Stdout)
		return
	}
	code, err := withJava(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// beWriter obeys the same orders as the C program sdk/c/test/writer.c, which describes them.
func beWriter(orders io.Reader, answers io.Writer) {
	var c *handlers.Channel
	var ids *handlers.IDs
	answer := "ok"
	obey := func(words []string) (err error) {
		number := func(i int) (n uint64) {
			if _, scanErr := fmt.Sscan(words[i], &n); scanErr != nil && err == nil {
				err = scanErr
			}
			return n
		}
		switch words[0] {
		case "open":
			o := handlers.Options{Handler: given(words[3]), Policy: given(words[8]),
				Stamp: given(words[9]), Params: channel.Params{}}
			for i, name := range []string{"n", "x", "y"} {
				if v := number(4 + i); v != 0 {
					o.Params[name] = v
				}
			}
			if v := number(7); v != 0 {
				o.Params["period"] = time.Duration(v).String()
			}
			if words[10] != "0" {
				o.Buffer = words[10]
			}
			open := handlers.Open
			if words[1] == "shared" {
				open = handlers.OpenShared
			}
			var openErr error
			if c, openErr = open(words[2], o); openErr != nil {
				return openErr
			}
		case "log":
			for i, first := uint64(0), number(1); i < number(2); i++ {
				c.Log(first + i)
			}
		case "at":
			for i, first := uint64(0), number(2); i < number(3); i++ {
				c.LogAt(number(1), first+i)
			}
		case "dropped":
			answer = fmt.Sprint(c.Dropped())
		case "link":
			c.Link(number(1), number(2))
		case "snapshot":
			c.Snapshot()
		case "close":
			err = c.Close()
		case "ids", "next", "close-ids":
			answer, ids, err = obeyAboutIDs(words, ids)
		case "memory":
			err = ring.CheckMemory(os.DirFS(words[1]), int64(number(2)))
		default:
			err = fmt.Errorf("unknown order")
		}
		return err
	}
	for lines := bufio.NewScanner(orders); lines.Scan(); {
		answer = "ok"
		if err := obey(strings.Fields(lines.Text())); err != nil {
			answer = err.Error()
		}
		fmt.Fprintln(answers, answer)
	}
}

// obeyAboutIDs carries out an order about ids. It returns the answer and the open ids.
func obeyAboutIDs(words []string, ids *handlers.IDs) (string, *handlers.IDs, error) {
	if words[0] == "close-ids" {
		return "ok", nil, ids.Close()
	}
	n, err := strconv.Atoi(words[1])
	if err != nil {
		return "", ids, err
	}
	if words[0] == "ids" {
		ids, err = handlers.OpenIDs("", n)
		return "ok", ids, err
	}
	var last uint64
	for range n {
		id, ok := ids.Next()
		if !ok {
			return "no id", ids, nil
		}
		last = id
	}
	return fmt.Sprint(last), ids, nil
}

func given(word string) string {
	if word == "-" {
		return ""
	}
	return word
}

// writers has, for each language, a function that returns a program that obeys orders.
var writers = map[string]func(t testing.TB) *exec.Cmd{
	"go": func(t testing.TB) *exec.Cmd {
		cmd, err := reexec.Command()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(os.Environ(), writerVariable+"=1")
		return cmd
	},
	"c": func(t testing.TB) *exec.Cmd {
		cmd := exec.Command(filepath.Join(buildC(t), "writer"))
		cmd.Env = os.Environ()
		return cmd
	},
}

// built is the directory in which the C library and its programs were built, or "" before that.
var built string

func buildC(t testing.TB) string {
	t.Helper()
	if built != "" {
		return built
	}
	for _, tool := range []string{"make", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skipf("the C library cannot be built here: %v", err)
		}
	}
	// The go command reuses an old test result if no file changed that the test has read. So read
	// the sources here.
	err := filepath.WalkDir("../../sdk/c", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			_, err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "cloudprofiler-c")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("make", "-C", "../../sdk/c", "programs", "CC=gcc",
		"BUILD="+dir).CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		t.Fatalf("build the C library: %v\n%s", err, out)
	}
	built = dir
	return dir
}

// A writer is a program that obeys orders from the test.
type writer struct {
	t       testing.TB
	cmd     *exec.Cmd
	orders  io.WriteCloser
	answers *bufio.Scanner
}

func startWriter(t testing.TB, language, rings string) *writer {
	t.Helper()
	cmd := writers[language](t)
	cmd.Env = append(cmd.Env, ring.DirectoryVariable+"="+rings)
	cmd.Stderr = os.Stderr
	orders, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &writer{t: t, cmd: cmd, orders: orders, answers: bufio.NewScanner(answers)}
	t.Cleanup(w.kill)
	return w
}

// ask gives the program an order and returns the answer.
func (w *writer) ask(format string, args ...any) string {
	w.t.Helper()
	if _, err := fmt.Fprintf(w.orders, format+"\n", args...); err != nil {
		w.t.Fatal(err)
	}
	if !w.answers.Scan() {
		w.t.Fatalf("no answer to %q: %v", fmt.Sprintf(format, args...), w.answers.Err())
	}
	return w.answers.Text()
}

// do gives the program an order that must succeed.
func (w *writer) do(format string, args ...any) {
	w.t.Helper()
	w.says("ok", format, args...)
}

// says gives the program an order. The program must answer it with the text want.
func (w *writer) says(want, format string, args ...any) {
	w.t.Helper()
	if answer := w.ask(format, args...); answer != want {
		w.t.Fatalf("%q: %s, want %s", fmt.Sprintf(format, args...), answer, want)
	}
}

// kill ends the program by SIGKILL.
func (w *writer) kill() {
	w.cmd.Process.Kill()
	w.cmd.Wait()
}
