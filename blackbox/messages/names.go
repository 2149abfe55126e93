package messages

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
)

// A name of an address comes from the node that uses the address: the same address may have another
// name elsewhere. If a program asked for the names itself, only these names count. So a program
// that asks for a.example keeps this name for the address, even if another program asked for
// b.example and got the same address.

// hosts has the names of addresses that the captures of each node logged.
type hosts map[hostAt][]blackbox.HostName

type hostAt struct {
	node    string
	address netip.Addr
}

func hostsOf(logs []*Log) hosts {
	all := hosts{}
	for _, l := range logs {
		for name := range l.hosts {
			at := hostAt{l.Node, name.Address}
			all[at] = append(all[at], name)
		}
	}
	return all
}

// remoteNames returns the names by which a socket's program knows the socket's remote address.
func (all hosts) remoteNames(s *socket) (names []string) {
	known := all[hostAt{s.log.Node, plainAddress(s.of.Remote).Addr()}]
	by := s.processOf()
	if asked := func(n blackbox.HostName) bool { return n.Process == by }; by != 0 &&
		slices.ContainsFunc(known, asked) {
		for _, n := range known {
			if asked(n) {
				names = append(names, n.Name)
			}
		}
	} else {
		for _, n := range known {
			names = append(names, n.Name)
		}
	}
	return names
}

// processOf returns the process that used a socket, or 0 if that is not known.
func (s *socket) processOf() uint32 {
	for _, calls := range [][]end{s.sends, s.receives} {
		if len(calls) > 0 {
			return calls[0].by.Process
		}
	}
	return 0
}

// joinNames returns the names of both lists in order, each of them once.
func joinNames(names, more []string) []string {
	if len(more) > 0 {
		names = append(names, more...)
		slices.Sort(names)
		names = slices.Compact(names)
	}
	return names
}

// noteName notes a name that an address has. It leaves out the names of a machine's own loopback
// interface, because they say nothing about a service.
func (l *Log) noteName(n blackbox.HostName) {
	if n.Name != "localhost" && !strings.HasPrefix(n.Name, "localhost.") &&
		!strings.HasPrefix(n.Name, "ip6-l") {
		n.Address = n.Address.Unmap()
		l.hosts[n] = true
	}
}

// An Outside is what a program sent to an address at which nothing was captured. Or it is what a
// program sent to UNIX sockets that were not captured, if it is known which process made them.
type Outside struct {
	From        Program  `json:"from"`
	Address     string   `json:"address"`         // "": UNIX sockets
	Port        uint16   `json:"port,omitempty"`  // 0: several
	Names       []string `json:"names,omitempty"` // of the address
	Messages    uint64   `json:"messages,string"`
	Bytes       uint64   `json:"bytes,string"`
	Connections int      `json:"connections"`

	// Process is the process of the same node that made the UNIX sockets: it called connect, listen
	// or socketpair. Another process may have used them since then. 0: not UNIX.
	Process uint32 `json:"process,omitempty"`
}

// To says where the messages went, without the port.
func (o *Outside) To() string {
	if o.Process != 0 {
		return fmt.Sprintf("UNIX socket that process %d made", o.Process)
	}
	return o.Address
}

// traffic counts messages of a socket.
type traffic struct{ messages, bytes uint64 }

// countUnknown counts a message whose receiver is not known, because no captured socket is the
// other end.
func (m *Matched) countUnknown(s *socket, e *end) {
	m.Left[NoOtherEnd]++
	t := m.outside[s]
	m.outside[s] = traffic{t.messages + 1, t.bytes + uint64(e.bytes)}
}

// outsideTraffic adds up what was sent to each address at which nothing was captured. The address
// with the most messages comes first.
func outsideTraffic(m *Matched, all hosts) []Outside {
	type key struct {
		from    Program
		to      netip.Addr
		process uint32
	}
	sums := map[key]*Outside{}
	ports := map[key]*port{}
	for s, t := range m.outside {
		to := plainAddress(s.of.Remote)
		if to.Port() == 0 && s.of.PeerProcess == 0 {
			continue // nobody knows where each message went
		}
		k := key{s.sends[0].by.Program, to.Addr(), s.of.PeerProcess}
		o := sums[k]
		if o == nil {
			o = &Outside{From: k.from, Process: k.process}
			if k.process == 0 {
				o.Address = k.to.String()
			}
			sums[k], ports[k] = o, &port{}
		}
		o.Messages, o.Bytes = o.Messages+t.messages, o.Bytes+t.bytes
		o.Connections++
		if k.process == 0 {
			o.Names = joinNames(o.Names, all.remoteNames(s))
		}
		ports[k].add(to.Port())
	}
	var list []Outside
	for k, o := range sums {
		o.Port = ports[k].one()
		list = append(list, *o)
	}
	slices.SortFunc(list, func(x, y Outside) int {
		return cmp.Or(-cmp.Compare(x.Messages, y.Messages), cmp.Compare(x.From.Node, y.From.Node),
			cmp.Compare(x.From.Name, y.From.Name), cmp.Compare(x.Address, y.Address),
			cmp.Compare(x.Process, y.Process))
	})
	return list
}
