package demo

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/netns"
)

// nodePlace is where the processes of the nodes run. There are two kinds of places. In the first
// kind, each node has a network namespace of its own, with links to the namespaces of all other
// nodes and of the coordinator. In the second kind, all nodes share the loopback interface.
type nodePlace struct {
	star *netns.Star // nil on the loopback interface
}

// newPlace makes namespaces unless loopback is set. If namespaces are not allowed, as without root
// and in many containers, it returns a place on the loopback interface, and the reason.
func newPlace(nodes int, loopback bool) (_ *nodePlace, whyNot error) {
	if loopback {
		return &nodePlace{}, nil
	}
	star, err := netns.NewMesh(nodes)
	if err != nil {
		return &nodePlace{}, err
	}
	return &nodePlace{star}, nil
}

func (p *nodePlace) close() {
	if p.star != nil {
		p.star.Close()
	}
}

// address returns the address of a node or, if end is netns.Hub, of the hub, where the coordinator
// runs. If all nodes share the loopback interface, it returns the parameter onLoopback.
func (p *nodePlace) address(end int, onLoopback netip.Addr) netip.Addr {
	if p.star == nil {
		return onLoopback
	}
	return p.star.Addr(end)
}

// runIn runs a function in the namespace of a node.
func (p *nodePlace) runIn(end int, f func() error) error {
	if p.star == nil {
		return f()
	}
	return p.star.Do(end, f)
}

// process is one of the demonstration's processes, as its parent sees it.
type process struct {
	readyAnswer
	link  *link
	cmd   *exec.Cmd
	input io.Closer
}

// start starts a process and waits until it is ready.
func (p *nodePlace) start(
	ctx context.Context, end int, command []string, temporary string, s setupMessage,
) (*process, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	// The process keeps its temporary files in the directory temporary, which this program removes
	// in any case. So a process that is killed leaves nothing behind.
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
	// In a process group of its own, the process does not get the signal of a Ctrl-C. Only this
	// program gets it, and then ends the process.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 10 * time.Second
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.runIn(end, cmd.Start); err != nil {
		return nil, err
	}
	n := &process{link: newLink(output, input), cmd: cmd, input: input}
	if err := n.link.send(s); err != nil {
		n.stop()
		return nil, err
	}
	if err := n.link.in.Decode(&n.readyAnswer); err != nil {
		n.stop()
		return nil, fmt.Errorf("wait until the process is ready: %w", err)
	}
	return n, nil
}

// endLimit is how long a process may take to end before it is killed.
const endLimit = 20 * time.Second

// stop closes the process's input, and waits for the process to end.
func (n *process) stop() {
	n.input.Close()
	timer := time.AfterFunc(endLimit, func() { n.cmd.Process.Kill() })
	defer timer.Stop()
	n.cmd.Wait()
}
