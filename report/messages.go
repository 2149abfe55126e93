package report

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
)

// Messages is what programs sent to each other, as a capture saw it. If nothing was captured, all
// lists are empty.
type Messages struct {
	Sent     int64     `json:"sent"`     // calls that sent
	Received int64     `json:"received"` // calls that received
	Matched  int64     `json:"matched"`  // sent messages with a known receiver
	Twice    int64     `json:"twice"`    // calls that agent and library saw; each counts once
	Services []Service `json:"services"`
	Talks    []Talk    `json:"talks"`   // the one with the most messages first
	Left     []Left    `json:"left"`    // the other sent messages
	Lost     []Left    `json:"lost"`    // messages that were seen and not stored
	Without  int64     `json:"without"` // talks that are not shown
	Outside  []Outside `json:"outside"` // the one with the most messages first
	Further  int64     `json:"further"` // outsides that are not shown
}

// Service is a program on a node.
type Service struct {
	Name  string   `json:"name"` // empty: not known
	Node  string   `json:"node"`
	Port  int64    `json:"port"`  // at which the others ask it; 0: none, or several
	Hosts []string `json:"hosts"` // host names by which the others know it, at most maxHosts
}

// Talk is all messages from one service to another.
type Talk struct {
	From        int64        `json:"from"` // indices of the services
	To          int64        `json:"to"`
	Asks        bool         `json:"asks"` // the sender asks, as far as the ports tell
	Messages    int64        `json:"messages"`
	Bytes       int64        `json:"bytes"`
	Connections int64        `json:"connections"`
	Transfer    []Percentile `json:"transfer"`
	Verdict     Verdict      `json:"verdict"`
	Unknown     int64        `json:"unknown"`   // messages whose transfer is not known
	Backwards   int64        `json:"backwards"` // messages that were received before they were sent

	// The parts of the transfers, for the messages whose parts are known: see messages.Parts.
	Arrived   int64        `json:"arrived"` // messages whose arrival was seen
	Network   []Percentile `json:"network"`
	Waited    []Percentile `json:"waited"`
	Divided   int64        `json:"divided"` // messages of which it is known why they waited
	Kernel    []Percentile `json:"kernel"`
	Program   []Percentile `json:"program"`
	Resent    int64        `json:"resent"` // messages of which TCP sent bytes again
	Resending []Percentile `json:"resending"`
}

// Outside is all messages from a program to an address at which nothing was captured.
type Outside struct {
	Program  string   `json:"program"` // empty: not known
	Node     string   `json:"node"`
	Address  string   `json:"address"`
	Port     int64    `json:"port"`  // 0: several
	Hosts    []string `json:"hosts"` // host names of the address, at most maxHosts
	Messages int64    `json:"messages"`
	Bytes    int64    `json:"bytes"`
}

// Left is a number of messages, with the reason why they are not among the talks.
type Left struct {
	Reason   string `json:"reason"`
	Node     string `json:"node"` // empty: any node
	Messages int64  `json:"messages"`
}

// A page shows at most maxTalks elements of the list of Talk, and at most maxOutsides of the list
// of Outside. It shows at most maxHosts host names of a Service or an Outside.
const maxTalks, maxOutsides, maxHosts = 80, 20, 20

// AddMessages adds what was captured. The answer may be nil.
func (d *Data) AddMessages(a *messages.Answer) {
	if a == nil {
		return
	}
	m := &d.Messages
	m.Sent, m.Received, m.Matched = count(a.Sent), count(a.Received), count(a.Matched)
	m.Twice = count(a.Twice)
	index := map[messages.Program]int64{}
	service := func(p messages.Program) int64 {
		i, known := index[p]
		if !known {
			i = int64(len(m.Services))
			index[p] = i
			m.Services = append(m.Services, Service{Name: p.Name, Node: p.Node})
		}
		return i
	}
	back := map[[2]messages.Program]*messages.Pair{}
	for i := range a.Pairs {
		back[[2]messages.Program{a.Pairs[i].To, a.Pairs[i].From}] = &a.Pairs[i]
	}
	m.Without = int64(max(0, len(a.Pairs)-maxTalks))
	for i := range a.Pairs[:min(len(a.Pairs), maxTalks)] {
		p := &a.Pairs[i]
		t := Talk{
			From: service(p.From), To: service(p.To),
			Asks:     senderAsks(p, back[[2]messages.Program{p.From, p.To}]),
			Messages: count(p.Messages),
			Bytes:    count(p.Bytes), Connections: int64(p.Connections), Verdict: Consistent,
			Unknown: count(p.Unknown), Backwards: count(p.Backwards),
		}
		if p.Suspect {
			t.Verdict = Suspect
			d.Verdict = Suspect
		}
		t.Transfer = percentilesOf(p.Transfer)
		t.Arrived, t.Divided, t.Resent = count(p.Arrived), count(p.Divided), count(p.Resent)
		t.Network, t.Waited = percentilesOf(p.Arrival), percentilesOf(p.Waited)
		t.Kernel, t.Program = percentilesOf(p.Kernel), percentilesOf(p.Program)
		t.Resending = percentilesOf(p.Resending)
		m.Services[t.From].addHostNames(p.From_names)
		m.Services[t.To].addHostNames(p.To_names)
		if t.Asks && p.To_port != 0 {
			m.Services[t.To].Port = int64(p.To_port)
		}
		m.Talks = append(m.Talks, t)
	}
	for _, reason := range slices.Sorted(maps.Keys(a.Left)) {
		m.Left = append(m.Left, Left{Reason: string(reason), Messages: count(a.Left[reason])})
	}
	m.Further = int64(max(0, len(a.Outside)-maxOutsides))
	for _, o := range a.Outside[:min(len(a.Outside), maxOutsides)] {
		m.Outside = append(m.Outside, Outside{
			Program: o.From.Name, Node: o.From.Node, Address: o.To(), Port: int64(o.Port),
			Hosts:    o.Names[:min(len(o.Names), maxHosts)],
			Messages: count(o.Messages), Bytes: count(o.Bytes),
		})
	}
	for _, n := range a.Nodes {
		for _, reason := range slices.Sorted(maps.Keys(n.Lost)) {
			m.Lost = append(m.Lost, Left{reason, n.Node, count(n.Lost[reason])})
		}
		if n.Missing != "" {
			d.Missing = append(d.Missing, Missing{"messages of " + n.Node, n.Missing})
		}
	}
}

func percentilesOf(all []messages.Percentile) (list []Percentile) {
	for _, q := range all {
		list = append(list, Percentile{q.Percent, roundDown(q.Lo_cycles), roundUp(q.Hi_cycles)})
	}
	return list
}

// addHostNames adds host names by which another program knows the service.
func (s *Service) addHostNames(hosts []string) {
	s.Hosts = append(s.Hosts, hosts...)
	slices.Sort(s.Hosts)
	s.Hosts = slices.Compact(s.Hosts)
	s.Hosts = s.Hosts[:min(len(s.Hosts), maxHosts)]
}

// senderAsks reports whether the sender of a pair is the client. A client has a new port for each
// connection, and a server always has the same port. If the ports do not differ and both programs
// are on one node, the program that sent first is taken for the client. On two nodes, the names of
// the nodes decide.
func senderAsks(p, back *messages.Pair) bool {
	if back == nil || back == p {
		return true
	}
	from, to := p.From_port, p.To_port
	switch {
	case (from == 0) != (to == 0):
		return to != 0
	case from != to:
		return to < from
	case p.From.Node == p.To.Node && p.First_cycles != back.First_cycles:
		return p.First_cycles < back.First_cycles
	}
	return cmp.Or(cmp.Compare(p.From.Node, p.To.Node), cmp.Compare(p.From.Name, p.To.Name)) < 0
}
