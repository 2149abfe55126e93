package messages

import (
	"cmp"
	"math"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Options say how to answer. The zero value takes everything from the run.
type Options struct {
	// Reference is the node in whose cycles transfers are given. If the run does not relate this
	// node to the nodes of a message, the transfer of the message is not known.
	Reference  string
	Wander     tscratio.Wander // assumed wander; 0: what is stored with each relation
	ThirdNodes tscratio.ThirdNodes

	// The function Each is called for each message of which both ends are known. If Each returns an
	// error, Of returns that error. Each may be nil.
	Each func(*Timed) error
}

// A Timed is a message of which both ends are known, with its times in cycles of the reference.
type Timed struct {
	Match
	Transfer tscratio.Duration
	Unknown  error // says why the transfer is not known
	Parts    Parts
	times    *Times
}

// Sent returns an interval of readings of the reference that contains the beginning of the call
// that sent the message, if the transfer is known.
func (t *Timed) Sent() (tscratio.Interval, error) {
	begins, known := t.beginning()
	if !known {
		begins = t.Send
	}
	return t.times.At(&begins)
}

// An Answer is what a run says about messages. A run without captured messages has none.
type Answer struct {
	Reference string `json:"reference"` // durations are in cycles of this node
	Pairs     []Pair `json:"pairs"`     // the pair with the most messages first
	Nodes     []Node `json:"nodes"`

	Sent     uint64            `json:"sent,string"` // calls that sent
	Received uint64            `json:"received,string"`
	Matched  uint64            `json:"matched,string"` // sent messages with a known receiver
	Left     map[Reason]uint64 `json:"left"`           // the other sent messages, by reason

	// Twice is the number of calls that the other counts leave out, because the agent's capture and
	// a library in the program both saw the calls of a socket.
	Twice uint64 `json:"twice,string,omitempty"`

	// Outside says where messages went if their other end was not captured, as far as this is
	// known.
	Outside []Outside `json:"outside,omitempty"`

	Elsewhen string `json:"elsewhen,omitempty"` // as in Times.Elsewhen
}

// A Pair sums up the messages from one program to another. It includes only messages of which both
// ends are known.
type Pair struct {
	From        Program `json:"from"`
	To          Program `json:"to"`
	Messages    uint64  `json:"messages,string"`
	Bytes       uint64  `json:"bytes,string"`
	Connections int     `json:"connections"`

	// Transfer has percentiles of the time from the beginning of the sending call to the end of the
	// receiving call. Suspect says that a relation from which they were computed is suspect.
	Transfer []Percentile `json:"transfer"`
	Suspect  bool         `json:"suspect,omitempty"`
	// Unknown is the number of messages whose transfer is not known: the two nodes are not related,
	// or the beginning of the call was not seen. Backwards is the number of messages that were
	// received before they were sent, even if each of the two events is given the most favourable
	// moment of its interval. Each such message refutes an assumption.
	Unknown   uint64 `json:"unknown,string"`
	Backwards uint64 `json:"backwards,string"`

	// Arrived is the number of messages whose arrival at the receiver's kernel was seen. Arrival
	// has percentiles of the time from the beginning of the sending call to the arrival. Waited has
	// percentiles of the time from the arrival to the end of the receiving call.
	Arrived uint64       `json:"arrived,string,omitempty"`
	Arrival []Percentile `json:"arrival,omitempty"`
	Waited  []Percentile `json:"waited,omitempty"`

	// Divided is the number of messages for which the log shows why they waited. Kernel and Program
	// have percentiles of the two parts, as in Parts.
	Divided uint64       `json:"divided,string,omitempty"`
	Kernel  []Percentile `json:"kernel,omitempty"`
	Program []Percentile `json:"program,omitempty"`

	// Resent is the number of messages of which TCP sent bytes again. Resending has percentiles of
	// the time from the beginning of the sending call until TCP sent bytes for the last time.
	Resent    uint64       `json:"resent,string,omitempty"`
	Resending []Percentile `json:"resending,omitempty"`

	// From_port and To_port are the ports of the two programs. A port is 0 if its program has no
	// port, or several.
	From_port uint16 `json:"from_port,omitempty"`
	To_port   uint16 `json:"to_port,omitempty"`

	// From_names are the host names by which the receiving program knows the sending one. To_names
	// are those by which the sending program knows the receiving one.
	From_names []string `json:"from_names,omitempty"`
	To_names   []string `json:"to_names,omitempty"`

	// First_cycles is the smallest stamp of a call that sent one of the messages, as a reading of
	// the sender's counter.
	First_cycles uint64 `json:"-"`
}

// A Percentile is an interval in cycles of the reference.
type Percentile struct {
	Percent   float64 `json:"percent"`
	Lo_cycles int64   `json:"lo_cycles"`
	Hi_cycles int64   `json:"hi_cycles"`
}

// A Node says what was captured on a node.
type Node struct {
	Node     string            `json:"node"`
	Messages uint64            `json:"messages,string"`
	Lost     map[string]uint64 `json:"lost"` // seen but not in the log, by reason
	Missing  string            `json:"missing,omitempty"`
}

var percents = []float64{50, 90, 99, 100}

// Of returns the answer for a run, or nil if the run has no captured messages.
func Of(dir *runs.Directory, o Options) (*Answer, error) {
	logs, err := Logs(dir)
	if err != nil || len(logs) == 0 {
		return nil, err
	}
	a := &Answer{Reference: o.Reference}
	for _, l := range logs {
		a.Nodes = append(a.Nodes, l.Summary())
	}
	t, err := NewTimes(dir, o)
	if err != nil {
		return nil, err
	}
	names := hostsOf(logs)
	pairs := map[[2]Program]*pair{}
	var refused error
	m := match(logs, t.mayBeReceiver, func(m Match) {
		k := [2]Program{*m.From, *m.To}
		p := pairs[k]
		if p == nil {
			p = &pair{Pair: Pair{From: k[0], To: k[1]}, sockets: map[*socket]bool{}, hosts: names}
			pairs[k] = p
		}
		timed := Timed{Match: m, times: t}
		timed.Transfer, timed.Unknown = t.Transfer(&m)
		timed.Parts = t.Parts(&m)
		p.add(&timed)
		if o.Each != nil && refused == nil {
			refused = o.Each(&timed)
		}
	})
	if refused != nil {
		return nil, refused
	}
	a.Sent, a.Received, a.Matched, a.Left = m.Sent, m.Received, m.Matched, m.Left
	a.Twice, a.Elsewhen = m.Twice, t.Elsewhen()
	a.Outside = outsideTraffic(&m, names)
	for _, p := range pairs {
		a.Pairs = append(a.Pairs, p.finish())
	}
	slices.SortFunc(a.Pairs, func(x, y Pair) int {
		return cmp.Or(-cmp.Compare(x.Messages, y.Messages), cmp.Compare(x.From.Node, y.From.Node),
			cmp.Compare(x.From.Name, y.From.Name), cmp.Compare(x.To.Node, y.To.Node),
			cmp.Compare(x.To.Name, y.To.Name))
	})
	return a, nil
}

// Logs reads the captures of a run. It returns none if nothing was captured.
func Logs(dir *runs.Directory) (logs []*Log, err error) { return LogsInto(dir, nil) }

// LogsInto does what Logs does. The store keeps the calls, so only the function Sockets may be used
// with the logs. If the store is nil, all calls stay in memory.
func LogsInto(dir *runs.Directory, store *Store) (logs []*Log, err error) {
	all, _ := dir.Logs() // package analysis reports what is missing
	for _, node := range all {
		rest := slices.DeleteFunc(slices.Clone(node.Segments), func(s logstore.Segment) bool {
			return s.Channel.String() != blackbox.Channel
		})
		for len(rest) > 0 {
			ring := logstore.SegmentsOf(rest, rest[0].Channel, rest[0].Incarnation)
			rest = rest[len(ring):]
			l, err := read(node.Node, ring, store)
			if err != nil {
				return nil, err
			}
			logs = append(logs, l)
		}
	}
	if store != nil {
		err = store.finish()
	}
	return logs, err
}

// Summary says how much was captured and how much was lost.
func (l *Log) Summary() Node {
	n := Node{Node: l.Node, Messages: l.Messages, Lost: map[string]uint64{}, Missing: l.Missing}
	for r, lost := range l.Lost {
		n.Lost[r.String()] += lost
	}
	if l.Dropped > 0 {
		// Each message consists of two events. If one of the two was dropped, the message is lost.
		n.Lost["ring or disk full"] += l.Dropped
	}
	return n
}

// pair collects the messages of a pair.
type pair struct {
	Pair
	sockets map[*socket]bool
	hosts   hosts
	ports   [2]port

	transfer, until, waited    amounts
	kernel, program, resending amounts
}

// amounts collects durations.
type amounts struct{ lo, hi []int64 }

func (a *amounts) add(d tscratio.Duration) {
	a.lo, a.hi = append(a.lo, d.Lo), append(a.hi, d.Hi)
}

func (a *amounts) percentiles() (all []Percentile) {
	slices.Sort(a.lo)
	slices.Sort(a.hi)
	for _, percent := range percents {
		if n := len(a.lo); n > 0 {
			k := max(int(math.Ceil(percent/100*float64(n))), 1) - 1
			all = append(all, Percentile{percent, a.lo[k], a.hi[k]})
		}
	}
	return all
}

func (p *pair) add(m *Timed) {
	p.Messages++
	p.Bytes += uint64(m.Bytes)
	if !p.sockets[m.sender] {
		p.sockets[m.sender] = true
		p.To_names = joinNames(p.To_names, p.hosts.remoteNames(m.sender))
		p.From_names = joinNames(p.From_names, p.hosts.remoteNames(m.receiver))
	}
	p.ports[0].add(m.sender.of.Local.Port())
	p.ports[1].add(m.receiver.of.Local.Port())
	if p.First_cycles == 0 || m.Send.Lo_cycles < p.First_cycles {
		p.First_cycles = m.Send.Lo_cycles
	}
	if m.Unknown != nil {
		p.Unknown++
		return
	}
	if m.Transfer.Hi < 0 {
		p.Backwards++
	}
	p.Suspect = p.Suspect || m.Transfer.Verdict == tscratio.Suspect
	p.transfer.add(m.Transfer)
	parts := &m.Parts
	if parts.Resent {
		p.Resent++
		p.resending.add(parts.Resending)
	}
	if parts.Divided {
		p.Divided++
		p.kernel.add(parts.Kernel)
		p.program.add(parts.Program)
	}
	if parts.Arrived {
		p.Arrived++
		p.Suspect = p.Suspect || parts.Network.Verdict == tscratio.Suspect
		p.until.add(parts.Network)
		p.waited.add(parts.Waited)
	}
}

// A port is the common port of many sockets. If their ports differ, several is true.
type port struct {
	number  uint16
	several bool
}

func (p *port) add(number uint16) {
	p.several = p.several || p.number != 0 && p.number != number
	p.number = number
}

func (p *port) one() uint16 {
	if p.several {
		return 0
	}
	return p.number
}

func (p *pair) finish() Pair {
	p.Connections = len(p.sockets)
	p.From_port, p.To_port = p.ports[0].one(), p.ports[1].one()
	p.Transfer, p.Arrival = p.transfer.percentiles(), p.until.percentiles()
	p.Waited, p.Kernel = p.waited.percentiles(), p.kernel.percentiles()
	p.Program, p.Resending = p.program.percentiles(), p.resending.percentiles()
	return p.Pair
}
