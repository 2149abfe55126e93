package simrun

import (
	"math/rand/v2"
	"net/netip"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
)

// These lengths are in cycles of the true time, not of a node's counter. In a run of Captured, each
// transfer takes Transfer_cycles. For the last Waited_cycles of a transfer, the message waits at
// the receiver. During Busy_cycles of this wait, the receiver does something else. TCP sends one
// message again, Resending_cycles after the transfer of this message began.
const (
	Transfer_cycles, Waited_cycles = 26_000, 9_000
	Busy_cycles, Resending_cycles  = 4_000, 12_000
)

// ServerName is the host name of the server in a run of Captured.
const ServerName = "server.example"

// Captured writes a run in which a client on node A sends 100 messages of 50 bytes to a server on
// node B. Nobody receives the last message. The arrivals of the first 50 messages were seen. For
// the first 25 messages, it is also known why they waited. The client looked up the server's
// address under the name ServerName. The caller can add channels to the run.
func Captured(rng *rand.Rand, parent, name string, more ...Channel) (nodes []Node, err error) {
	nodes = Nodes(rng, 2)
	channels := []Channel{{Node: 0, Name: blackbox.Channel}, {Node: 1, Name: blackbox.Channel}}
	log := func(node int, time uint64, events []blackbox.Event, failed error) {
		if err == nil {
			err = failed
		}
		for _, e := range events { // the stamps become readings of the node's counter
			channels[node].Records = append(channels[node].Records, Record{Time: time, ID: e.ID})
		}
	}
	addresses := []netip.AddrPort{
		netip.MustParseAddrPort("10.0.0.1:1000"), netip.MustParseAddrPort("10.0.0.2:80"),
	}
	for node, program := range []string{"client", "server"} {
		c := blackbox.Connection{
			Number: 1, Family: blackbox.IPv4, Protocol: blackbox.TCP, Cookie: 7,
			Local: addresses[node], Remote: addresses[1-node],
			Sends: uint32(500 + node*400), Receives: uint32(900 - node*400),
		}
		events, failed := c.Events(1)
		log(node, Hz, events, failed)
		th := blackbox.Thread{Number: 3, Process: 3, Program: program, Name: program}
		events, failed = th.Events(1)
		log(node, Hz, events, failed)
	}
	events, failed := blackbox.HostName{
		Source: blackbox.Asked, Process: 3, Address: addresses[1].Addr(), Name: ServerName,
	}.Events(1)
	log(0, Hz, events, failed)
	for i := range uint64(100) {
		at := Hz + (i+1)*100_000
		m := blackbox.Message{
			Kind: blackbox.Sent, Began_cycles: 1, Ended_cycles: 1, Connection: 1, Thread: 3,
			Position: 501 + 50*i, Bytes: 50, Stream: true, Sure: true, Early: true,
			Width_cycles: blackbox.MinWidth_cycles,
		}
		events, failed := m.Events()
		log(0, at, events[:], failed)
		if i < 99 {
			m.Kind, m.Early = blackbox.Received, false
			if i < 50 {
				m.Arrived, m.Arrived_cycles, m.Ended_cycles = true, 1, 1+m.Width_cycles
			}
			events, failed = m.Events()
			log(1, at+Transfer_cycles-Waited_cycles*(1-min(i/50, 1)), events[:1], failed)
			log(1, at+Transfer_cycles, events[1:], failed)
		}
		if i < 25 {
			events, failed = blackbox.Happening{
				What: blackbox.Busy, Began_cycles: 1, Ended_cycles: 1, Thread: 3, Connection: 1,
				Position: 501 + 50*(i+1), Slack_cycles: 64,
			}.Events()
			log(1, at+Transfer_cycles-Busy_cycles, events[:1], failed)
			log(1, at+Transfer_cycles, events[1:], failed)
		}
		for k := range 2 * b2i(i == 7) { // the second time it was in vain
			events, failed = blackbox.Happening{
				What: blackbox.Retransmitted, Began_cycles: 1, Ended_cycles: 1, Connection: 1,
				Position: 501 + 50*i + 20, Bytes: 10,
			}.Events()
			log(0, at+Resending_cycles+k*50_000, events[:], failed)
		}
	}
	if err != nil {
		return nil, err
	}
	return nodes, Write(rng, parent, name, nodes, append(channels, more...))
}
