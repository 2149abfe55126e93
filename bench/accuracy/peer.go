package accuracy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/host"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/internal/virtual"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/minrtt/zmqtransport"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// peerRole is what a peer process does.
type peerRole string

const (
	answerProbes peerRole = "answer probes"
	takeLoad     peerRole = "take load"
	makeLoad     peerRole = "make load"
)

// order says what a peer process should do. It is one JSON object on the process's standard input.
type order struct {
	Do        peerRole       `json:"do"`
	At        netip.AddrPort `json:"at"` // where to listen; for makeLoad, where to send
	Node      vnode.Config   `json:"node"`
	Quantum   uint64         `json:"quantum_cycles"` // quantum of the machine's counter
	Cores     []int          `json:"cores"`          // the machine's cores whose counters agree
	Spin      time.Duration  `json:"spin_ns"`
	ZeroMQ    bool           `json:"zeromq"`
	UserStamp bool           `json:"user_stamps_only"`
}

// report is what a peer process writes when its input ends.
type report struct {
	CPU   time.Duration `json:"cpu_ns"` // processor time of the thread that answered
	Bytes int64         `json:"bytes"`  // load that arrived
}

// Peer runs the process of the other end. It carries out its order until its input ends.
func Peer(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	decoder := json.NewDecoder(in)
	var o order
	if err := decoder.Decode(&o); err != nil {
		return fmt.Errorf("read order: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	say := func(address netip.AddrPort) error { return json.NewEncoder(out).Encode(address) }
	var r report
	var err error
	switch o.Do {
	case answerProbes:
		r.CPU, err = answer(ctx, o, say)
	case takeLoad:
		r.Bytes, err = countBytes(ctx, o.At, say)
	case makeLoad:
		err = fillConnection(ctx, o.At, say)
	default:
		err = fmt.Errorf("unknown role %q", o.Do)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

// answer answers the probes of the other end. Its stamps come from a virtual node's clocks.
func answer(ctx context.Context, o order, say func(netip.AddrPort) error) (time.Duration, error) {
	notice, err := minrtt.OpenStepNotice()
	if err != nil {
		return 0, err
	}
	defer notice.Close()
	physical := minrtt.SystemClock(asm.Counter, notice, host.StampStep(os.DirFS("/"), o.Cores))
	physical.Quantum_cycles = o.Quantum
	clock, err := virtual.Clock(o.Node, physical)
	if err != nil {
		return 0, err
	}
	transport, address, err := listen(o, clock.Counter)
	if err != nil {
		return 0, err
	}
	a, err := minrtt.NewAnswerer(transport, clock, nil)
	if err != nil {
		return 0, errors.Join(err, transport.Close())
	}
	if err := say(address); err != nil {
		return 0, err
	}
	var used time.Duration
	err = onThread(o.Spin > 0, 1, func() error {
		begun := threadTime()
		defer func() { used = threadTime() - begun }()
		return a.Serve(ctx)
	})
	return used, err
}

func listen(o order, counter func() uint64) (minrtt.Transport, netip.AddrPort, error) {
	if o.ZeroMQ {
		return zmqtransport.Listen(o.At, counter)
	}
	u, err := minrtt.ListenUDP(o.At, minrtt.UDPConfig{
		Counter: counter, Spin: o.Spin, UserStampsOnly: o.UserStamp,
	})
	if err != nil {
		return nil, netip.AddrPort{}, err
	}
	return u, u.LocalAddr(), nil
}

// countBytes counts the bytes that arrive on one TCP connection.
func countBytes(ctx context.Context, at netip.AddrPort, say func(netip.AddrPort) error) (int64,
	error) {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		return 0, err
	}
	defer l.Close()
	context.AfterFunc(ctx, func() { _ = l.Close() })
	if err := say(l.Addr().(*net.TCPAddr).AddrPort()); err != nil {
		return 0, err
	}
	c, err := l.Accept()
	if err != nil {
		return 0, errors.Join(err, ctx.Err())
	}
	context.AfterFunc(ctx, func() { _ = c.Close() })
	n, _ := io.CopyBuffer(writerOnly{io.Discard}, readerOnly{c}, make([]byte, 1<<18))
	return n, nil
}

// These types hide the methods through which io.CopyBuffer would take shortcuts: splice, and a
// buffer of another size.
type (
	writerOnly struct{ io.Writer }
	readerOnly struct{ io.Reader }
)

// fillConnection writes to one TCP connection as fast as the connection accepts data.
func fillConnection(ctx context.Context, to netip.AddrPort, say func(netip.AddrPort) error) error {
	c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(to))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = c.Close() })
	if err := say(to); err != nil {
		return err
	}
	for b := make([]byte, 1<<17); ; {
		if _, err := c.Write(b); err != nil {
			return ctx.Err() // if the other end closed first, that is no failure
		}
	}
}

// PeerArguments are command-line arguments. If this program is started with them, it calls Peer.
var PeerArguments = []string{"probe-peer"}

// start starts a peer process at an end of the lab.
func (l *twoEnds) start(end int, o order) (*runningPeer, error) {
	o.Quantum, o.Cores = l.machine.Quantum_cycles, l.machine.Cores
	cmd, err := reexec.Command(PeerArguments...)
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := l.at(end, cmd.Start); err != nil {
		return nil, fmt.Errorf("start process to %s: %w", o.Do, err)
	}
	r := &runningPeer{cmd: cmd, stdin: stdin, out: json.NewDecoder(stdout)}
	if err = json.NewEncoder(stdin).Encode(o); err == nil {
		err = r.out.Decode(&r.address)
	}
	if err != nil {
		_, stopErr := r.stop()
		return nil, fmt.Errorf("start process to %s: %w", o.Do, errors.Join(err, stopErr))
	}
	return r, nil
}
