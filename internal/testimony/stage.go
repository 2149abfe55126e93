package testimony

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
)

// A Stage is a directory of rings, with the processes that use it. The processes run this test's
// binary or a program in another language, and end when the test ends or earlier.
type Stage struct {
	Rings string

	t        testing.TB
	variable string // the environment variable that contains a process's role
	files    []string
	said     map[*exec.Cmd]string // the file of each program

	// Each function in others returns a program in another language than Go. The stage starts these
	// programs in turn, and its own program in Go (the role "program") when that one's turn comes.
	// If s.only is true, it leaves out the program in Go.
	others []func(file string) *exec.Cmd
	only   bool
}

// NewStage makes a stage. The argument variable names the environment variable from which processes
// read their role.
func NewStage(t testing.TB, variable string) *Stage {
	t.Helper()
	return &Stage{Rings: Rings(t), t: t, variable: variable, said: map[*exec.Cmd]string{}}
}

// Rings makes a directory of rings in shared memory, because real programs have their rings there.
func Rings(t testing.TB) string {
	t.Helper()
	rings, err := os.MkdirTemp("/dev/shm", "cloudprofiler-test")
	if err != nil {
		rings = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(rings) })
	return rings
}

// Start starts a process with this role.
func (s *Stage) Start(role string, args ...string) *exec.Cmd {
	s.t.Helper()
	cmd, err := reexec.Command(args...)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), s.variable+"="+role)
	return s.start(cmd)
}

func (s *Stage) start(cmd *exec.Cmd) *exec.Cmd {
	s.t.Helper()
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { Kill(cmd) })
	return cmd
}

// StartProgram starts a process with the role "program", or a program in another language that does
// the same. The program's arguments are the directory of rings and the file for its testimony.
func (s *Stage) StartProgram() *exec.Cmd {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "testimony")
	s.files = append(s.files, file)
	cmd := s.startProgram(file, len(s.files)-1)
	s.said[cmd] = file
	return cmd
}

func (s *Stage) startProgram(file string, n int) *exec.Cmd {
	s.t.Helper()
	if !s.only {
		if n %= len(s.others) + 1; n == 0 {
			return s.Start("program", s.Rings, file)
		}
		n--
	}
	return s.start(s.others[n%len(s.others)](file))
}

// WaitForCalls waits until a call has returned in the first program that was started.
func (s *Stage) WaitForCalls() {
	s.t.Helper()
	s.waitForCall(s.files[0])
}

func (s *Stage) waitForCall(file string) {
	s.t.Helper()
	said, err := Open(file)
	if err != nil {
		s.t.Fatal(err)
	}
	defer said.Close()
	WaitFor(s.t, "a first call", func() bool { return atomic.LoadUint64(&said.Returned[0]) > 0 })
}

// Each calls the function show with the testimony of each program that had opened its rings.
func (s *Stage) Each(show func(said *Testimony)) {
	s.t.Helper()
	for _, file := range s.files {
		said, err := Open(file)
		if err != nil {
			s.t.Fatal(err)
		}
		if said.Begun() {
			show(said)
		}
		said.Close()
	}
}

// KillAtRandom kills programs and the drainer of their rings, the given number of times. Two
// programs run. Each time KillAtRandom first waits for a random time, during which it sets or
// removes a limit on the drainer's disk. Then it kills one program, the drainer, or both, and
// starts the killed processes again. At the end it kills all processes.
func (s *Stage) KillAtRandom(rng *rand.Rand, kills int, pause time.Duration,
	start func() *exec.Cmd) {
	s.t.Helper()
	drainer := start()
	programs := []*exec.Cmd{s.StartProgram(), s.StartProgram()}
	s.WaitForCalls() // without this, a slow machine would kill all programs before they log
	for range kills {
		time.Sleep(time.Duration(rng.Int64N(int64(pause))))
		setDisk(s.t, rng, drainer)
		time.Sleep(time.Duration(rng.Int64N(int64(pause))))
		what := rng.IntN(3)
		if what != 0 {
			i := rng.IntN(len(programs))
			if s.only { // a JVM would be killed before it logs
				s.waitForCall(s.said[programs[i]])
			}
			Kill(programs[i])
			programs[i] = s.StartProgram()
		}
		if what != 1 {
			Kill(drainer)
			// In this time nobody drains what the programs log.
			time.Sleep(time.Duration(rng.IntN(10)) * time.Millisecond)
			drainer = start()
		}
	}
	for _, p := range append(programs, drainer) {
		Kill(p)
	}
}

// KillAtPoint makes drainers of the rings kill themselves while programs log. For each n in times
// it calls start, which must start a drainer that dies when it reaches a fault point for the n-th
// time.
//
// During the run of about every second drainer, KillAtPoint also kills a program. If drainers reach
// the point only when a program has ended, set the argument ended: then KillAtPoint kills a program
// while each drainer runs. It returns how many drainers reached the point. Because machines may be
// slow, the first drainer has half a minute to reach the point.
func (s *Stage) KillAtPoint(rng *rand.Rand, times []int, ended bool,
	start func(n int) *exec.Cmd) (deaths int) {
	s.t.Helper()
	program := s.StartProgram()
	s.WaitForCalls() // without this, a slow machine would kill the program before it has a ring
	for _, n := range times {
		drainer := start(n)
		dead := make(chan bool)
		go func() { drainer.Wait(); close(dead) }()
		time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
		if ended || rng.IntN(2) == 0 {
			Kill(program)
			program = s.StartProgram()
		}
		patience := 400 * time.Millisecond // the drainer may reach the point fewer times
		if deaths == 0 {
			patience = 30 * time.Second
		}
		select {
		case <-dead:
			deaths++
		case <-time.After(patience):
			drainer.Process.Kill()
			<-dead
		}
	}
	Kill(program)
	return deaths
}

// Kill ends a process with SIGKILL.
func Kill(cmd *exec.Cmd) {
	cmd.Process.Kill()
	cmd.Wait()
}

// WaitFor waits until done returns true. It fails the test after a minute.
func WaitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}
