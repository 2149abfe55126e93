package conversation

import (
	"bufio"
	"bytes"
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
)

// A Program is a running program that writes down the truth.
type Program struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  bytes.Buffer
	said *bufio.Scanner
}

// Start starts this test program in a role: see Main.
func Start(t testing.TB, args ...any) *Program {
	t.Helper()
	return StartNamed(t, "", args...)
}

// StartNamed does the same as Start, but the kernel calls the program by the given name. The name
// has at most 15 bytes. An emulator would not pass it on.
func StartNamed(t testing.TB, name string, args ...any) *Program {
	t.Helper()
	var words []string
	for _, a := range args {
		words = append(words, fmt.Sprint(a))
	}
	p := &Program{}
	var err error
	if p.cmd, err = reexec.Command(words...); err != nil {
		t.Fatal(err)
	}
	if name != "" { // the kernel takes the name from the path
		link := filepath.Join(t.TempDir(), name)
		if err := os.Symlink(p.cmd.Path, link); err != nil {
			t.Fatal(err)
		}
		p.cmd.Path = link
	}
	p.cmd.Env = append(os.Environ(), Variable+"=1")
	p.cmd.Stdout = &p.out
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	said, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.said = bufio.NewScanner(said)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.cmd.Process.Kill() })
	return p
}

// Continue lets a waiting program continue.
func (p *Program) Continue(t testing.TB) {
	t.Helper()
	if _, err := p.in.Write([]byte{'\n'}); err != nil {
		t.Error(err)
	}
}

// Process returns the number of the program's process.
func (p *Program) Process() int { return p.cmd.Process.Pid }

// Says returns the next line that the program prints. A server prints its address.
func (p *Program) Says() string {
	p.said.Scan()
	return p.said.Text()
}

// Kill kills the program. Its truth is lost.
func (p *Program) Kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// Truth waits until the program ends, and returns the truth that it wrote.
func (p *Program) Truth(t testing.TB) (calls []Call) {
	t.Helper()
	for p.said.Scan() {
		t.Error(p.said.Text())
	}
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("a program of the test: %v", err)
	}
	if err := gob.NewDecoder(&p.out).Decode(&calls); err != nil {
		t.Fatal(err)
	}
	return calls
}
