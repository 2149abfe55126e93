//go:build !race

package handlers

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func init() { programs["step"] = stepProgram }

// An order tells the stepped program what to do next.
type order struct {
	Do      string  // open, or a name in steppableCalls
	Many    bool    // for open
	Options Options // for open
	ID      uint64  // for log, go and link
	Child   uint64  // for link
}

type answer struct {
	Path string // the answer to open
	Err  string // the answer to open
	// Entry has the address of the code of each function in steppableCalls. Only the first answer,
	// which the program sends when it starts, contains it.
	Entry map[string]uint64
}

// steppableCalls has the functions that the test can step through. Each call is in a function of
// its own, so that it has an entry and a return.
var steppableCalls = map[string]func(c *Channel, o *order){
	"log":   stepLog,
	"go":    stepGo,
	"link":  stepLink,
	"aside": logAside,
}

//go:noinline
func stepLog(c *Channel, o *order) { c.Log(o.ID) }

// stepGo is the log call of builds without assembly.
//
//go:noinline
func stepGo(c *Channel, o *order) {
	if c.keepsNothing() {
		return
	}
	logGo(c, o.ID)
}

// logAside logs in another goroutine, and waits for its end. Use it only with runOrder,
// because stepOrder follows only one thread.
func logAside(c *Channel, o *order) {
	var other sync.WaitGroup
	other.Go(func() { c.Log(o.ID) })
	other.Wait()
}

//go:noinline
func stepLink(c *Channel, o *order) { c.Link(o.ID, o.Child) }

// stepProgram carries out the orders that it reads from its standard input.
func stepProgram() error {
	debug.SetGCPercent(-1)
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	entries := make(map[string]uint64)
	for name, f := range steppableCalls {
		entries[name] = uint64(reflect.ValueOf(f).Pointer())
	}
	if err := out.Encode(answer{Entry: entries}); err != nil {
		return err
	}
	var c *Channel
	for {
		var o order
		if err := in.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var a answer
		if o.Do == "open" {
			c.Close()
			var err error
			if c, err = open("stepped/start", o.Options, o.Many); err != nil {
				a.Err = err.Error()
			}
			a.Path = c.Path()
		} else {
			// Give up the processor once, which begins a new time slice. Then Go's scheduler does
			// not interrupt the steps that follow.
			runtime.Gosched()
			steppableCalls[o.Do](c, &o)
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
}

// steppedProgram is a program that the test can stop, and kill, after each instruction of a log
// call. Only the goroutine that started the program may use it.
type steppedProgram struct {
	t     *testing.T
	pid   int
	in    io.WriteCloser
	out   *bufio.Reader
	entry map[string]uint64
	wait  func() error
	dead  bool
}

// startStepped starts a program and attaches to it as its tracer.
func startStepped(t *testing.T) *steppedProgram {
	t.Helper()
	runtime.LockOSThread() // the kernel lets only the tracing thread step the program
	t.Cleanup(runtime.UnlockOSThread)
	// Only the log call may run on the program's thread, so switch off preemption and garbage
	// collection.
	cmd := programCommand(t, "step", "GODEBUG=asyncpreemptoff=1", "GOGC=off",
		"GOMAXPROCS=1") // one shard, even with many writers
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	startProgram(t, cmd)
	s := &steppedProgram{t: t, pid: cmd.Process.Pid, in: in, out: bufio.NewReader(out),
		wait: cmd.Wait}
	s.entry = s.answer().Entry
	if err := unix.PtraceSeize(s.pid); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("trace a child: %v: CI must allow ptrace", err)
		}
		t.Skipf("trace a child: %v: allow ptrace to step through the log call", err)
	}
	return s
}

func (s *steppedProgram) answer() (a answer) {
	s.t.Helper()
	line, err := s.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	if err != nil {
		s.t.Fatalf("stepped program answers %q: %v", line, err)
	}
	return a
}

func (s *steppedProgram) send(o order) {
	s.t.Helper()
	if err := json.NewEncoder(s.in).Encode(o); err != nil {
		s.t.Fatal(err)
	}
}

// openChannel makes the program close its last channel and open another one. It returns the path of
// the new ring.
func (s *steppedProgram) openChannel(many bool, options Options) string {
	s.t.Helper()
	s.send(order{Do: "open", Many: many, Options: options})
	a := s.answer()
	if a.Err != "" {
		s.t.Fatal(a.Err)
	}
	return a.Path
}

// runOrder makes the program carry out an order at full speed.
func (s *steppedProgram) runOrder(o order) {
	s.t.Helper()
	s.send(o)
	s.answer()
}

// stepOrder makes the program carry out an order in steps. It calls visit(0, false) before the
// first instruction, and then visit after each instruction. In the last call, returned is true,
// because the order has ended. If visit returns false, stepOrder kills the program there.
func (s *steppedProgram) stepOrder(o order, visit func(at int, returned bool) bool) {
	s.t.Helper()
	if err := s.try(o, visit); err != nil {
		s.t.Fatalf("step through %v: %v", o, err)
	}
}

func (s *steppedProgram) try(o order, visit func(at int, returned bool) bool) error {
	s.t.Helper()
	if err := unix.PtraceInterrupt(s.pid); err != nil {
		return fmt.Errorf("interrupt: %w", err)
	}
	if err := s.awaitStop(); err != nil {
		return err
	}
	entry := uintptr(s.entry[o.Do])
	var was [1]byte
	if _, err := unix.PtracePeekText(s.pid, entry, was[:]); err != nil {
		return fmt.Errorf("read code: %w", err)
	}
	const breakpoint = 0xCC
	if _, err := unix.PtracePokeText(s.pid, entry, []byte{breakpoint}); err != nil {
		return fmt.Errorf("set breakpoint: %w", err)
	}
	var r unix.PtraceRegs
	s.send(o)
	for r.Rip != uint64(entry)+1 {
		if err := unix.PtraceCont(s.pid, 0); err != nil {
			return fmt.Errorf("continue: %w", err)
		}
		if err := s.awaitStop(); err != nil {
			return err
		}
		if err := unix.PtraceGetRegs(s.pid, &r); err != nil {
			return fmt.Errorf("read registers: %w", err)
		}
	}
	if _, err := unix.PtracePokeText(s.pid, entry, was[:]); err != nil {
		return fmt.Errorf("remove breakpoint: %w", err)
	}
	r.Rip = uint64(entry)
	if err := unix.PtraceSetRegs(s.pid, &r); err != nil {
		return fmt.Errorf("write registers: %w", err)
	}
	var word [8]byte
	if _, err := unix.PtracePeekData(s.pid, uintptr(r.Rsp), word[:]); err != nil {
		return fmt.Errorf("read return address: %w", err)
	}
	back, stack := binary.LittleEndian.Uint64(word[:]), r.Rsp+8

	const tooMany = 1_000_000
	for at := 0; at < tooMany; at++ {
		returned := r.Rip == back && r.Rsp == stack
		if !visit(at, returned) {
			return s.killProgram()
		}
		if returned {
			if err := unix.PtraceCont(s.pid, 0); err != nil {
				return fmt.Errorf("continue: %w", err)
			}
			s.answer()
			return nil
		}
		if err := unix.PtraceSingleStep(s.pid); err != nil {
			return fmt.Errorf("step: %w", err)
		}
		if err := s.awaitStop(); err != nil {
			return err
		}
		if err := unix.PtraceGetRegs(s.pid, &r); err != nil {
			return fmt.Errorf("read registers: %w", err)
		}
	}
	return fmt.Errorf("no return after %d instructions", tooMany)
}

// awaitStop waits until the program has stopped.
func (s *steppedProgram) awaitStop() error {
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(s.pid, &status, unix.WALL, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return fmt.Errorf("wait for a stop: %w", err)
		case !status.Stopped():
			return fmt.Errorf("program ended with status %#x", status)
		}
		return nil
	}
}

// killProgram ends the program where it is, and waits until the process is gone.
func (s *steppedProgram) killProgram() error {
	if err := unix.Kill(s.pid, unix.SIGKILL); err != nil {
		return fmt.Errorf("kill: %w", err)
	}
	s.wait() // returns only the error that the program was killed
	s.dead = true
	return nil
}
