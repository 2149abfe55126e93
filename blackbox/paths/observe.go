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

// moments are the captured system calls that sent and received the request and the response of a
// call between programs. One that was not captured is nil.
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

// programs returns the names of all programs, sorted.
func (s *Seen) programs() (names []string) {
	for _, p := range s.Places {
		names = append(names, p.Program)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// A process identifies one process on a node, by its name and its number.
type process struct {
	node, name string
	number     uint32
}

// observer makes calls from sockets.
type observer struct {
	seen    Seen
	of      map[*messages.Socket]role
	places  map[process]int32
	outside map[string]int32 // places that were not captured, by their address
	ports   map[process]uint16
	calls   *foundCalls
	err     error // of calls
	time    func(*messages.Call) int64
	refuted func(sent, received *messages.Call) bool

	connections uint32 // on which several requests were open at the same time, so far
}

// foundCall is a call and its places.
type foundCall struct {
	moments
	caller, callee int32
	connection     uint32 // as in calls.Call
	answers        bool
	oneWay         bool
}

// observe makes calls from sockets. The function time converts stamps to ns of one scale, in which
// the stamps of one node keep their distances. The function refuted reports whether the first of
// two given calls cannot have sent what the second received. At most the given number of calls is
// in memory; 0 means 32768. The caller must close the result.
func observe(v *survey, time func(*messages.Call) int64,
	refuted func(sent, received *messages.Call) bool, most int) (*observer, error) {
	o := &observer{of: v.of, places: map[process]int32{}, outside: map[string]int32{},
		ports: map[process]uint16{}, calls: newFoundCalls(most), time: time,
		refuted: refuted}
	servers := v.servers()
	for _, s := range v.sockets {
		if servers[s] {
			o.notePort(s, v.of[s].reader)
		}
	}
	for _, s := range v.sockets {
		if servers[s] && s.Other != nil {
			continue
		}
		if err := o.makeCalls(s, servers[s]); err != nil {
			o.calls.close()
			return nil, err
		}
	}
	o.seen.Quantum_ns = 1
	o.seen.processes, o.seen.tuples = o.places, map[int32]uint64{}
	return o, nil
}

// makeCalls makes the calls of a connection.
func (o *observer) makeCalls(s *messages.Socket, isServer bool) error {
	if isServer {
		o.fromServer(s)
	} else {
		o.fromClient(s)
	}
	return cmp.Or(s.Err(), o.err)
}

// pass passes a call on.
func (o *observer) pass(f *foundCall, isRefuted bool) {
	c := f.convertCall(o.time)
	if err := o.calls.add(c.Began_ns(), f, isRefuted); o.err == nil {
		o.err = err
	}
}

// The method each passes all calls to the function do, in the order in which they began.
func (o *observer) each(do func(calls.Call, *moments) error) error {
	return o.calls.each(func(f *foundCall) error {
		return do(f.convertCall(o.time), &f.moments)
	})
}

// whole returns all calls, so all of them must fit into memory.
func (o *observer) whole() (*Seen, error) {
	seen := o.seen // not a pointer into o, because o is large
	err := o.each(func(c calls.Call, m *moments) error {
		seen.Calls, seen.moments = append(seen.Calls, c), append(seen.moments, *m)
		return nil
	})
	return &seen, err
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
	wake := func(c *messages.Call) (w calls.Wake) {
		if c != nil && c.Waker != 0 {
			at := *c
			at.Lo_cycles, at.Hi_cycles = c.Woken_cycles, c.Woken_cycles
			w = calls.Wake{By: c.Waker, At_ns: time(&at)}
		}
		return w
	}
	return calls.Call{Caller: f.caller, Callee: f.callee, Sent_ns: ns(f.sent),
		Received_ns: ns(f.received), Replied_ns: ns(f.replied), Got_ns: ns(f.got),
		SentBy: by(f.sent), ReceivedBy: by(cmp.Or(f.heard, f.received)),
		RepliedBy: by(f.replied), GotBy: by(f.got),
		SentWake: wake(f.sent), RepliedWake: wake(f.replied),
		Connection: f.connection, Answers: f.answers, OneWay: f.oneWay}
}

// A local is an address with a port, in one network namespace of a node.
type local struct {
	node      string
	namespace uint32
	at        netip.AddrPort
}

// servers says which sockets belong to the program that receives requests. A server has many
// connections with one port. A client has a different port for each connection. If that does not
// decide, the client is the end that sends first.
func (v *survey) servers() map[*messages.Socket]bool {
	ports := map[local]int{}
	remotes := map[netip.AddrPort]int{}
	portOf := func(s *messages.Socket) local {
		return local{s.Log.Node, s.Of.Namespace, s.Of.Local}
	}
	for _, s := range v.sockets {
		if s.Of.Family != blackbox.UNIX {
			ports[portOf(s)]++
			remotes[s.Of.Remote]++
		}
	}
	is := map[*messages.Socket]bool{}
	for _, s := range v.sockets {
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
		is[s] = own > other || own == other && v.of[s].receivesFirst
		if s.Other != nil {
			is[s.Other] = !is[s]
		}
	}
	return is
}

// notePort notes the port of a server's socket for the server's process, if it is the lowest one so
// far. The parameter reader is the thread that received first on this socket.
func (o *observer) notePort(s *messages.Socket, reader *messages.Thread) {
	const ephemeral = 32768 // ports from here on may differ each time a program starts
	port := s.Of.Local.Port()
	if s.Of.Family == blackbox.UNIX || port >= ephemeral || reader == nil {
		return
	}
	p := processOf(reader)
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
