package ring

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/internal/leak"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
)

// childVariable names the environment variable that tells this test's binary which function of the
// map childPrograms to run.
const childVariable = "RING_TEST_CHILD"

// childPrograms are programs that tests run in processes of their own. Each takes a directory or a
// path as its argument, prints one line when it is ready, and ends when its standard input is
// closed.
var childPrograms = map[string]func(dir string) error{
	// This program has a ring.
	"owner": func(dir string) error {
		p, err := Create(dir, testConfig())
		if err != nil {
			return err
		}
		putRecords(&p.Shards[0], 1, 1)
		fmt.Println(p.Path)
		return waitForEnd()
	},
	// This program has a ring, and has started another program.
	"parent": func(dir string) error {
		p, err := Create(dir, testConfig())
		if err != nil {
			return err
		}
		cmd, err := reexec.Command()
		if err != nil {
			return err
		}
		cmd.Env = append(os.Environ(), childVariable+"=idle")
		cmd.Stdin = os.Stdin
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			return err
		}
		fmt.Println(p.Path, cmd.Process.Pid)
		return waitForEnd()
	},
	"idle": func(string) error {
		fmt.Println("ready")
		return waitForEnd()
	},
	// This program calls Boot first without a free descriptor, then with a free one, and then
	// without one again.
	"boot": func(string) error {
		var l unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
			return err
		}
		none := unix.Rlimit{Cur: 0, Max: l.Max}
		for _, limit := range []unix.Rlimit{none, l, none} {
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
				return err
			}
			fmt.Printf("%x ", Boot())
		}
		fmt.Println()
		return waitForEnd()
	},
	// This program is a drainer: it holds the directory's lock.
	"drainer": func(dir string) error {
		if _, err := LockDirectory(dir); err != nil {
			return err
		}
		fmt.Println("ready")
		return waitForEnd()
	},
	// This program keeps a reference only to a Shard. It keeps none to its Producer, and none to
	// its DirectoryLock.
	"forgetful": func(dir string) error {
		path, shard, err := func() (string, *Shard, error) {
			p, err := Create(dir, testConfig())
			if err != nil {
				return "", nil, err
			}
			return p.Path, &p.Shards[0], nil
		}()
		if err != nil {
			return err
		}
		if _, err := LockDirectory(dir); err != nil {
			return err
		}
		for range 5 {
			runtime.GC()
			time.Sleep(time.Millisecond) // finalizers run in a goroutine of their own
		}
		fmt.Println(path)
		defer putRecords(shard, 1, 1)
		return waitForEnd()
	},
	// This program may not write large files.
	"small files": func(dir string) error {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE,
			&unix.Rlimit{Cur: 4096, Max: 4096}); err != nil {
			return err
		}
		return sayError(Create(dir, testConfig()))
	},
	// This program has no free file descriptor.
	"no descriptors": func(dir string) error {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 3}); err != nil {
			return err
		}
		return sayError(Create(dir, testConfig()))
	},
	"create": func(dir string) error { return sayError(Create(dir, testConfig())) },
	"open": func(path string) error {
		_, err := Open(path)
		return sayError(nil, err)
	},
}

func sayError(_ *Producer, err error) error {
	fmt.Println(err)
	return nil
}

func waitForEnd() error {
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

func TestMain(m *testing.M) {
	if name := os.Getenv(childVariable); name != "" {
		if err := childPrograms[name](os.Getenv("RING_TEST_DIR")); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(leak.Main(m))
}

// A child is a process that runs one of the functions in the map childPrograms.
type child struct {
	*exec.Cmd
	readyLine string // the line that it printed
	end       io.Closer
}

// start starts a child and returns when the child has printed its line.
func start(t *testing.T, name, dir string, change ...func(*exec.Cmd)) *child {
	t.Helper()
	cmd, err := reexec.Command()
	must(t, err)
	cmd.Env = append(os.Environ(), childVariable+"="+name, "RING_TEST_DIR="+dir)
	cmd.Stderr = os.Stderr
	for _, f := range change {
		f(cmd)
	}
	end, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	c := &child{Cmd: cmd, end: end}
	t.Cleanup(func() {
		c.end.Close()
		c.Process.Kill()
		c.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("child %s says %q: %v", name, line, err)
	}
	c.readyLine = strings.TrimSpace(line)
	return c
}

// kill ends the child with SIGKILL.
func (c *child) kill(t *testing.T) {
	t.Helper()
	must(t, c.Process.Kill())
	c.Wait()
}
