package paths

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
)

// moments are the captured system calls at the four moments of a call between programs. A moment
// that was not captured is nil.
type moments struct {
	sent     *messages.Call // the first one that sent the request
	received *messages.Call // the first one that received the request
	heard    *messages.Call // the last one that received the request
	replied  *messages.Call // the last one that sent the response
	got      *messages.Call // the last one that received the response
}

// firstMoment is the first captured moment.
func (m *moments) firstMoment() *messages.Call {
	return cmp.Or(m.sent, m.received, m.got, m.replied)
}

// Seen has the calls between programs, as the captured messages show them.
type Seen struct {
	calls.Seen
	moments []moments // of each call
	// processes has the place of each process. tuples has, for some calls, the id of the
	// instrumented tuple that the call carried.
	processes map[process]int32
	tuples    map[int32]uint64
	Mixed     int // connections on which requests and responses cannot be told apart
	Refuted   int // matches of messages that the bound between their nodes refutes
}

// A process is where calls may have causes.
type process struct {
	node, name string
	number     uint32
}

// observer makes calls from sockets.
type observer struct {
	seen    Seen
	places  map[process]int32
	outside map[string]int32 // places that were not captured, by their address
	ports   map[process]uint16
	found   []foundCall

	connections uint32 // on which several requests were open at the same time, so far
}

// foundCall is a call and its places.
type foundCall struct {
	moments
	caller, callee int32
	connection     uint32 // as in calls.Call
	answers        bool
}

// observe makes calls from sockets. The function time converts stamps to ns of one scale, in which
// the stamps of one node keep their distances. The function refuted reports whether the first of
// two given calls cannot have sent what the second received.
func observe(sockets []*messages.Socket, time func(*messages.Call) int64,
	refuted func(sent, received *messages.Call) bool) *Seen {
	o := &observer{places: map[process]int32{}, outside: map[string]int32{},
		ports: map[process]uint16{}}
	servers := serversOf(sockets)
	for _, s := range sockets {
		if servers[s] {
			o.notePort(s)
		}
	}
	for _, s := range sockets {
		switch {
		case !servers[s]:
			o.fromClient(s)
		case s.Other == nil:
			o.fromServer(s)
		}
	}
	o.separateRefuted(refuted)
	for i := range o.found {
		f := &o.found[i]
		o.seen.Calls = append(o.seen.Calls, f.convertCall(time))
	}
	o.sortCalls()
	seen := o.seen // not a pointer into o, because o is large
	seen.Quantum_ns = 1
	seen.processes, seen.tuples = o.places, map[int32]uint64{}
	return &seen
}

// convertCall converts the moments of a call.
func (f *foundCall) convertCall(time func(*messages.Call) int64) calls.Call {
	ns := func(c *messages.Call) int64 {
		if c == nil {
			return calls.Unknown
		}
		return time(c)
	}
	by := func(c *messages.Call) uint32 {
		if c == nil {
			return 0
		}
		return c.By.Number
	}
	return calls.Call{Caller: f.caller, Callee: f.callee, Sent_ns: ns(f.sent),
		Received_ns: ns(f.received), Replied_ns: ns(f.replied), Got_ns: ns(f.got),
		SentBy: by(f.sent), ReceivedBy: by(cmp.Or(f.heard, f.received)),
		RepliedBy: by(f.replied), GotBy: by(f.got),
		Connection: f.connection, Answers: f.answers}
}

// sortCalls sorts the calls by when they begin.
func (o *observer) sortCalls() {
	order := make([]int, len(o.found))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(o.seen.Calls[a].Began_ns(), o.seen.Calls[b].Began_ns())
	})
	sorted := make([]calls.Call, len(order))
	o.seen.moments = make([]moments, len(order))
	for i, from := range order {
		sorted[i], o.seen.moments[i] = o.seen.Calls[from], o.found[from].moments
	}
	o.seen.Calls = sorted
}

// A local is an address with a port, in one network namespace of a node.
type local struct {
	node      string
	namespace uint32
	at        netip.AddrPort
}

// serversOf says which sockets belong to the program that receives requests. A server has many
// connections with one port. A client has another port for each connection. If that does not
// decide, the client is the end that sends first.
func serversOf(sockets []*messages.Socket) map[*messages.Socket]bool {
	ports := map[local]int{}
	remotes := map[netip.AddrPort]int{}
	portOf := func(s *messages.Socket) local {
		return local{s.Log.Node, s.Of.Namespace, s.Of.Local}
	}
	for _, s := range sockets {
		if s.Of.Family != blackbox.UNIX {
			ports[portOf(s)]++
			remotes[s.Of.Remote]++
		}
	}
	is := map[*messages.Socket]bool{}
	for _, s := range sockets {
		if _, known := is[s]; known {
			continue
		}
		own, other := 0, 0
		if s.Of.Family != blackbox.UNIX {
			own, other = ports[portOf(s)], remotes[s.Of.Remote]
			if s.Other != nil {
				other = ports[portOf(s.Other)]
			}
		}
		is[s] = own > other || own == other && receivesFirst(s)
		if s.Other != nil {
			is[s.Other] = !is[s]
		}
	}
	return is
}

func receivesFirst(s *messages.Socket) bool {
	switch {
	case len(s.Receives) == 0:
		return false
	case len(s.Sends) == 0:
		return true
	}
	return s.Receives[0].Hi_cycles < s.Sends[0].Lo_cycles
}

// notePort notes the lowest port at which a process receives requests.
func (o *observer) notePort(s *messages.Socket) {
	const ephemeral = 32768 // ports from here on may differ each time a program starts
	port := s.Of.Local.Port()
	if s.Of.Family == blackbox.UNIX || port >= ephemeral || len(s.Receives) == 0 {
		return
	}
	p := processOf(s.Receives[0].By)
	if known, ok := o.ports[p]; !ok || port < known {
		o.ports[p] = port
	}
}

func processOf(t *messages.Thread) process {
	name := t.Name
	if name == "" {
		name = "unknown"
	}
	return process{t.Node, name, t.Process}
}

// place returns the place of a thread's process. Processes with the same name and the same port are
// copies of one program.
func (o *observer) place(t *messages.Thread) int32 {
	p := processOf(t)
	n, known := o.places[p]
	if !known {
		program := p.name
		if port, ok := o.ports[p]; ok {
			program += ":" + strconv.Itoa(int(port))
		}
		n = int32(len(o.seen.Places))
		o.places[p] = n
		o.seen.Places = append(o.seen.Places,
			calls.Place{Program: program, Instance: p.node + "/" + strconv.Itoa(int(p.number))})
	}
	return n
}

// farPlace returns the place of a program that was not captured.
func (o *observer) farPlace(s *messages.Socket) int32 {
	name := "UNIX socket"
	if s.Of.Family != blackbox.UNIX {
		name = s.Of.Remote.String()
	}
	n, known := o.outside[name]
	if !known {
		n = int32(len(o.seen.Places))
		o.outside[name] = n
		o.seen.Places = append(o.seen.Places, calls.Place{Program: name})
	}
	return n
}
