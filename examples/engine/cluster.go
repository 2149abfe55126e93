package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Cluster contains the processes that were started. Its methods may be called by several
// goroutines.
type Cluster struct {
	Java      string // the command that runs Java
	ClassPath string // the engine's jars
	Logs      string // directory of the processes' logs

	mu       sync.Mutex
	ended    bool
	launched []*Process
}

// Process is a process of a cluster.
type Process struct {
	Name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when the process has ended
}

// JVM says how to start a process.
type JVM struct {
	Name    string
	Options []string // options of the virtual machine
	Main    string   // name of the main class
	Args    []string
	Env     []string // variables in addition to the environment of this process
	Classes []string // directories and jars that come before the engine's jars
	Dir     string
}

// Start starts a process.
func (c *Cluster) Start(ctx context.Context, j JVM) (*Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil, errors.New("start " + j.Name + ": the cluster was stopped")
	}
	p := &Process{
		Name: j.Name, log: filepath.Join(c.Logs, j.Name+".log"), done: make(chan struct{}),
	}
	output, err := os.Create(p.log)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", j.Name, err)
	}
	defer output.Close()
	classPath := strings.Join(append(slices.Clone(j.Classes), c.ClassPath), ":")
	args := append(slices.Clone(j.Options), "-cp", classPath, j.Main)
	p.cmd = exec.CommandContext(ctx, c.Java, append(args, j.Args...)...)
	p.cmd.Dir, p.cmd.Env = j.Dir, append(os.Environ(), j.Env...)
	p.cmd.Stdout, p.cmd.Stderr = output, output
	// The processes that p starts belong to its group, so that they end together with p.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Cancel = func() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", j.Name, err)
	}
	go func() {
		p.cmd.Wait()
		close(p.done)
	}()
	c.launched = append(c.launched, p)
	return p, nil
}

// Kill kills a process and the processes that it started, at once and without a warning, as a
// failure of the machine would.
func (p *Process) Kill() {
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// Wait waits until the process has ended. If its exit code is not 0, the error has the last lines
// of its log.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("wait for %s: %w; it said last:\n%s",
			p.Name, context.Cause(ctx), p.Tail(20))
	case <-p.done:
	}
	if !p.cmd.ProcessState.Success() {
		return fmt.Errorf("%s: %v; it said last:\n%s", p.Name, p.cmd.ProcessState, p.Tail(20))
	}
	return nil
}

// Tail returns the last lines of a process's log.
func (p *Process) Tail(lines int) []byte {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	all := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return bytes.Join(all[max(0, len(all)-lines):], []byte("\n"))
}

// Said returns those lines of a process's log that begin with the given text. A process marks its
// answers by such a text.
func (p *Process) Said(beginning string) (lines []string) {
	text, _ := os.ReadFile(p.log)
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		if bytes.HasPrefix(line, []byte(beginning)) {
			lines = append(lines, string(line))
		}
	}
	return lines
}

// Stop ends all processes, the last one first. It asks each process to end, and kills a process
// that does not end in time.
func (c *Cluster) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for i := len(c.launched) - 1; i >= 0; i-- {
		p := c.launched[i]
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
		force := time.AfterFunc(10*time.Second, func() {
			syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		})
		<-p.done
		force.Stop()
		// The process has ended. Kill the processes that it started and that still run.
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
	c.launched = nil
}

// Until calls the function yes again and again, until yes returns true, ctx ends, or a process has
// failed.
func (c *Cluster) Until(ctx context.Context, what string, yes func() (bool, error)) error {
	var last error
	for {
		ok, err := yes()
		if ok {
			return nil
		}
		if err != nil {
			last = err
		}
		c.mu.Lock()
		launched := c.launched
		c.mu.Unlock()
		for _, p := range launched {
			select {
			case <-p.done:
				if p.cmd.ProcessState.Success() {
					continue // a command that has done its work
				}
				return fmt.Errorf("wait until %s: %s ended: %v; it said last:\n%s",
					what, p.Name, p.cmd.ProcessState, p.Tail(20))
			default:
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, errors.Join(context.Cause(ctx), last))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// FreePorts returns ports of the loopback interface that no program uses at present.
func FreePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
