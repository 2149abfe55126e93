package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/examples/adstream/job"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// The parent and its processes exchange JSON, one message a line, over the standard input and
// output of each process. A process whose input ends has lost its parent, and ends too.

// setupMessage is the parent's first message. Exactly one of its fields is set.
type setupMessage struct {
	Server  *serverSetup  `json:"server,omitempty"`
	Node    *nodeSetup    `json:"node,omitempty"`
	Program *programSetup `json:"program,omitempty"`
}

// serverSetup sets up the coordinator.
type serverSetup struct {
	Address string        `json:"address"` // where it listens
	State   string        `json:"state"`   // directory
	Runs    string        `json:"runs"`    // directory
	Key     control.Key   `json:"key"`
	Admin   control.Key   `json:"admin"`
	Clients []control.Key `json:"clients"` // public halves of the keys that the coordinator accepts
	Brief   bool          `json:"brief"`   // for tests: sweeps of a few exchanges
}

// nodeSetup sets up the agent of a virtual node.
type nodeSetup struct {
	Clocks                 vnode.Config  `json:"clocks"`
	Node                   tscratio.Node `json:"node"` // how a relation describes its counter
	PhysicalQuantum_cycles uint64        `json:"physical_quantum_cycles,string"`
	PhysicalCores          []int         `json:"physical_cores"` // cores within Node's core slack
	Address                netip.Addr    `json:"address"`
	Number                 int           `json:"number"` // the node's number in the ids of tuples
	Rings                  string        `json:"rings"`  // directory of the node's rings
	State                  string        `json:"state"`  // directory of the node's agent
	Chrony                 string        `json:"chrony"` // address of chronyd, or agent.ChronyOff
	Server                 string        `json:"server"` // address of the coordinator
	ServerPublic           string        `json:"server_public"`
	Key                    control.Key   `json:"key"`
	Often                  bool          `json:"often"` // true: run more trains than in a fleet
}

// programSetup sets up a node's part of the job.
type programSetup struct {
	Node      string         `json:"node"`
	Rings     string         `json:"rings"` // directory of all nodes' rings
	Placement *job.Placement `json:"placement"`
}

// readyAnswer is a process's answer to setupMessage. It contains the addresses at which other
// processes can reach this one.
type readyAnswer struct {
	Server string `json:"server,omitempty"`

	// A node answers the probes of the paper's method at the address Paper. At the address Load it
	// receives bytes that only load the network.
	Paper netip.AddrPort `json:"paper,omitzero"`
	Load  string         `json:"load,omitempty"`
}

// These are the orders to the coordinator.
const (
	orderStartRun = "start-run" // wait for Count nodes, then open a run
	orderStopRun  = "stop-run"  // close and collect the run, answer report.Trains
)

// These are the orders to a node's agent.
const (
	orderPaper  = "paper"  // make Count exchanges with Peer over ZeroMQ, answer report.Exchanges
	orderLoad   = "load"   // send BytesPerSecond to Peer until the next orderLoad; 0: send nothing
	orderChrony = "chrony" // wait until chronyd claims something
	orderStamps = "stamps" // answer report.Stamps
)

// orderWork asks a program to run its part of the job, and to report the result in orderReport.Job.
const orderWork = "work"

type order struct {
	Do             string `json:"do"`
	Peer           string `json:"peer,omitempty"`
	Count          int    `json:"count,omitempty"`
	BytesPerSecond int    `json:"bytes_per_second,omitempty"`
}

// orderReport answers an order.
type orderReport struct {
	Error     string              `json:"error,omitempty"`
	Trains    int                 `json:"trains,omitempty"` // number of trains of the run
	Exchanges []tscratio.Exchange `json:"exchanges,omitempty"`
	Job       *job.Result         `json:"job,omitempty"`
	Stamps    *stamps             `json:"stamps,omitempty"`
}

// stamps counts the exchanges in the trains that a node started. It also counts the stamps of these
// exchanges, separately for stamps of the kernel and stamps of the agent.
type stamps struct {
	Exchanges, Kernel, User uint64
}

// link is one end of the connection between the parent and a process.
type link struct {
	in  *json.Decoder
	out io.Writer
}

func newLink(in io.Reader, out io.Writer) *link { return &link{json.NewDecoder(in), out} }

func (l *link) send(message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_, err = l.out.Write(append(text, '\n'))
	return err
}

// ask sends an order and waits for its report.
func (l *link) ask(o order) (orderReport, error) {
	if err := l.send(o); err != nil {
		return orderReport{}, err
	}
	var r orderReport
	if err := l.in.Decode(&r); err != nil {
		return orderReport{}, fmt.Errorf("wait for %s: %w", o.Do, err)
	}
	if r.Error != "" {
		return orderReport{}, fmt.Errorf("%s: %s", o.Do, r.Error)
	}
	return r, nil
}
