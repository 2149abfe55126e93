package paths

import (
	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// A Path is a request, with the calls that it led to.
type Path struct {
	Pattern     int     `json:"pattern"`     // index of the pattern in the answer
	Probability float64 `json:"probability"` // that all links are right
	// Began contains the moment when the path began, as a reading of the reference. It is nil if
	// the run does not relate the node to the reference.
	Began *tscratio.Interval `json:"began"`
	Whole *Interval          `json:"whole"` // from the request until its response; nil: not known
	Calls []PathCall         `json:"calls"` // each call comes before those that it leads to
	// Suspect says that Whole rests on a suspect relation, so it is an estimate.
	Suspect bool `json:"suspect,omitempty"`
}

// A PathCall is a call of a path.
type PathCall struct {
	Depth  int `json:"depth"`
	Parent int `json:"parent"` // index of the call that caused it; -1: none
	From   End `json:"from"`   // the calling program; its name is empty if it was not captured
	To     End `json:"to"`
	// Probability is the probability of the link to the parent. RunnerUp is the probability that
	// the second likeliest request caused the call.
	Probability float64 `json:"probability"`
	RunnerUp    float64 `json:"runner_up"`

	// Tuple is the id of the instrumented tuple that the request carried. The events that the
	// called program logged show which tuple that was. It is nil if the request carried no tuple,
	// or if the tuple is not known.
	Tuple *uint64 `json:"tuple,omitempty,string"`

	// These are the times since the path began. A moment that was not captured is nil.
	Sent     *Interval `json:"sent"`
	Received *Interval `json:"received"`
	Replied  *Interval `json:"replied"`
	Got      *Interval `json:"got"`

	// Own is the time that the called program spent on the call while it waited for no other call.
	// Network is the time that the request and the response took. A time that is not known is nil.
	Own     *Interval `json:"own"`
	Network *Interval `json:"network"`
	// Suspect says that one of the call's times rests on a suspect relation.
	Suspect bool `json:"suspect,omitempty"`

	// Message is the first captured system call that sent or received the request.
	Message *messages.Call `json:"-"`
	// Request and Response are the first system call that sent the request, and the last one that
	// sent the response. A call that was not captured is nil.
	Request  *messages.Call `json:"-"`
	Response *messages.Call `json:"-"`
}

// An End is one of the two programs of a call.
type End struct {
	Program string `json:"program"` // as in calls.Place
	Node    string `json:"node,omitempty"`
	Process uint32 `json:"process,omitempty"`
	Thread  uint32 `json:"thread,omitempty"`
	Socket  uint64 `json:"socket,string,omitempty"` // the kernel's number
}

// describeTree describes a tree. The path's pattern is the number of the canonical form.
func (m *meter) describeTree(root int32) Path {
	p := Path{Pattern: int(m.form[root]), Probability: m.probability[root],
		Whole: m.parts[root].whole.pointer(), Suspect: m.parts[root].whole.suspect}
	start := m.seen.moments[root].firstMoment()
	if began, err := m.times.At(start); err == nil {
		p.Began = &began
	}
	tree, depth := m.treeByTime(root)
	index := map[int32]int{}
	for i, c := range tree {
		index[c] = i
		at, l := &m.seen.moments[c], &m.links[c]
		of := &m.seen.Calls[c]
		k := PathCall{Depth: int(depth[i]), Parent: -1, From: m.describeEnd(of.Caller, at.sent),
			To: m.describeEnd(of.Callee, at.received), Probability: m.sureness(c),
			Own: m.parts[c].own.pointer(), Network: m.parts[c].network.pointer(),
			Message: at.firstMoment(), Request: at.sent, Response: at.replied,
			Suspect: m.parts[c].suspect()}
		if id, known := m.seen.tuples[c]; known {
			k.Tuple = &id
		}
		if k.From.Program != "" {
			k.RunnerUp = l.RunnerUpProbability
		}
		if i > 0 {
			k.Parent = index[m.parent[c]]
		}
		for _, moment := range []struct {
			at   *messages.Call
			into **Interval
		}{{at.sent, &k.Sent}, {at.received, &k.Received}, {at.replied, &k.Replied},
			{at.got, &k.Got}} {
			if moment.at == start {
				*moment.into = &Interval{}
			} else {
				since := m.between(start, moment.at)
				*moment.into, k.Suspect = since.pointer(), k.Suspect || since.suspect
			}
		}
		p.Calls = append(p.Calls, k)
	}
	return p
}

func (a amount) pointer() *Interval {
	if !a.known {
		return nil
	}
	i := a.Interval
	return &i
}

// describeEnd describes the program at a place, and the captured call there.
func (m *meter) describeEnd(place int32, c *messages.Call) (e End) {
	if place >= 0 {
		e.Program = m.seen.Places[place].Program
	}
	if c != nil {
		e.Node, e.Process, e.Thread, e.Socket = c.Log.Node, c.By.Process, c.By.Number, c.Cookie
	}
	return e
}

// A Filter chooses paths. Each field that is not empty must apply.
type Filter struct {
	Program  string // a program of the path: its name, with its port or without
	Least    int64  // cycles of the reference that the path took at least
	Message  *MessageID
	Doubtful bool // a link is less probable than link.Said
}

// A MessageID identifies a message that was sent. Its fields are columns of the exported table of
// messages.
type MessageID struct {
	Socket      uint64 // from_socket
	Sent_cycles uint64 // sent_lo
}

// isChosen reports whether a filter chooses a tree.
func (m *meter) isChosen(root int32, f *Filter) bool {
	whole := m.parts[root].whole
	if f.Least > 0 && (!whole.known || whole.Hi_cycles < f.Least) {
		return false
	}
	if f.Program == "" && f.Message == nil && !f.Doubtful {
		return true
	}
	program, message, doubtful := f.Program == "", f.Message == nil, !f.Doubtful
	tree, _ := m.tree(root)
	for _, c := range tree {
		k, at := &m.seen.Calls[c], &m.seen.moments[c]
		program = program || m.hasName(k.Caller, f.Program) || m.hasName(k.Callee, f.Program)
		message = message || f.Message.is(at.sent) || f.Message.is(at.replied)
		doubtful = doubtful || m.sureness(c) < link.Said
	}
	return program && message && doubtful
}

// hasName reports whether name is the name of the program at a place, with the program's port or
// without it.
func (m *meter) hasName(place int32, name string) bool {
	if place == calls.Outside {
		return false
	}
	return IsNamed(m.seen.Places[place].Program, name)
}

// IsNamed reports whether a program has a name. The name may lack the program's port.
func IsNamed(program, name string) bool {
	return program == name || len(program) > len(name) && program[:len(name)] == name &&
		program[len(name)] == ':'
}

func (id *MessageID) is(c *messages.Call) bool {
	return c != nil && c.Cookie == id.Socket && c.Lo_cycles == id.Sent_cycles
}
