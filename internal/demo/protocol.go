package demo

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// The parent and its two nodes talk in JSON, a message a line, over the node's standard input and output. A node that
// finds its input at an end has lost its parent and ends.

// setup is the parent's first message.
type setup struct {
	Clocks                 vnode.Config  `json:"clocks"`
	Node                   tscratio.Node `json:"node"` // what its counter is to the relation
	PhysicalQuantum_cycles uint64        `json:"physical_quantum_cycles,string"`
	Rings                  string        `json:"rings"` // directory of the node's rings
	State                  string        `json:"state"` // directory of the node's agent
}

// ready is the node's answer: where it answers probes, and where its actors take tuples.
type ready struct {
	Probes string `json:"probes"`
	Tuples string `json:"tuples"`
}

// Orders of the parent.
const (
	orderProbe  = "probe"  // run a train of Count exchanges with Peer, answer report.Trains
	orderStart  = "start"  // run PerSecond trains a second with Peer, until
	orderStop   = "stop"   // no more: answer report.Trains
	orderWork   = "work"   // the worker: take Count tuples, send them back
	orderSource = "source" // the source and the sink: send Count tuples to Peer, PerSecond, take them back
)

type order struct {
	Do        string `json:"do"`
	Peer      string `json:"peer,omitempty"`
	Count     int    `json:"count,omitempty"`
	PerSecond int    `json:"per_second,omitempty"`
}

// report answers an order.
type report struct {
	Error  string  `json:"error,omitempty"`
	Trains []train `json:"trains,omitempty"`
}

// train is what one train brought.
type train struct {
	User []tscratio.Exchange `json:"user"` // by the counter readings around the system calls alone

	// What tscratio is given: kernel stamps where there were any, and the packets that lack another half.
	Best tscratio.Train `json:"best"`

	Stamps, KernelStamps, Lost int
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
