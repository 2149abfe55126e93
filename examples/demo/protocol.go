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

// The parent and its processes talk in JSON, a message a line, over a process's standard input and output. A process that
// finds its input at an end has lost its parent and ends.

// setup is the parent's first message. One of them is there.
type setup struct {
	Server  *serverSetup  `json:"server,omitempty"`
	Node    *nodeSetup    `json:"node,omitempty"`
	Program *programSetup `json:"program,omitempty"`
}

// serverSetup is the coordinator's.
type serverSetup struct {
	Address string        `json:"address"` // where it listens
	State   string        `json:"state"`   // directory
	Runs    string        `json:"runs"`    // directory
	Key     control.Key   `json:"key"`
	Admin   control.Key   `json:"admin"`
	Clients []control.Key `json:"clients"` // the public halves of who is let in
	Brief   bool          `json:"brief"`   // sweeps of a few exchanges: for tests
}

// nodeSetup is a virtual node's agent's.
type nodeSetup struct {
	Clocks                 vnode.Config  `json:"clocks"`
	Node                   tscratio.Node `json:"node"` // what its counter is to a relation
	PhysicalQuantum_cycles uint64        `json:"physical_quantum_cycles,string"`
	PhysicalCores          []int         `json:"physical_cores"` // that agree as far as Node says
	Address                netip.Addr    `json:"address"`
	Number                 int           `json:"number"` // in the ids of tuples
	Rings                  string        `json:"rings"`  // directory of the node's rings
	State                  string        `json:"state"`  // directory of the node's agent
	Chrony                 string        `json:"chrony"` // address of chronyd, or agent.ChronyOff
	Server                 string        `json:"server"` // address of the coordinator
	ServerPublic           string        `json:"server_public"`
	Key                    control.Key   `json:"key"`
	Often                  bool          `json:"often"` // more trains than a fleet wants to spend: the run is short
}

// programSetup is that of a node's part of the job.
type programSetup struct {
	Node      string         `json:"node"`
	Rings     string         `json:"rings"` // directory of all nodes' rings
	Placement *job.Placement `json:"placement"`
}

// ready is a process's answer: where others reach it.
type ready struct {
	Server string `json:"server,omitempty"`

	// Of a node: where it answers the paper's probes, and where it takes the load of the network.
	Paper netip.AddrPort `json:"paper,omitzero"`
	Load  string         `json:"load,omitempty"`
}

// Orders of the parent.
const (
	orderStartRun = "start-run" // the coordinator: wait for Count nodes, open a run
	orderStopRun  = "stop-run"  // the coordinator: close and collect it, answer report.Trains
	orderPaper    = "paper"     // a node: exchange Count packets with Peer over ZeroMQ, answer report.Exchanges
	orderWork     = "work"      // a program: run its part of the job, answer report.Job
	orderLoad     = "load"      // a node: send BytesPerSecond to Peer until the next orderLoad, which may be of 0
	orderChrony   = "chrony"    // a node: wait until its chronyd claims something
	orderStamps   = "stamps"    // a node: answer report.Stamps
)

type order struct {
	Do             string `json:"do"`
	Peer           string `json:"peer,omitempty"`
	Count          int    `json:"count,omitempty"`
	BytesPerSecond int    `json:"bytes_per_second,omitempty"`
}

// report answers an order.
type report struct {
	Error     string              `json:"error,omitempty"`
	Trains    int                 `json:"trains,omitempty"` // of the run
	Exchanges []tscratio.Exchange `json:"exchanges,omitempty"`
	Job       *job.Result         `json:"job,omitempty"`
	Stamps    *stamps             `json:"stamps,omitempty"`
}

// stamps counts what the trains that a node started have brought.
type stamps struct {
	Exchanges, Kernel, User uint64
}

// link is one end of the conversation.
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
func (l *link) ask(o order) (report, error) {
	if err := l.send(o); err != nil {
		return report{}, err
	}
	var r report
	if err := l.in.Decode(&r); err != nil {
		return report{}, fmt.Errorf("wait for %s: %w", o.Do, err)
	}
	if r.Error != "" {
		return report{}, fmt.Errorf("%s: %s", o.Do, r.Error)
	}
	return r, nil
}
