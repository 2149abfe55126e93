package overlay

// A Message is one of the types below. Messages are values: neither a node nor a transport changes
// one after it was sent. A transport between processes encodes them as it likes.
type Message interface{ message() }

// A Ping says that the sender has an edge to the receiver, or wants to have one. If the edge is the
// result of a walk of the receiver, Walk is the id of that walk. Otherwise, Walk is 0.
type Ping struct {
	Seq, Walk uint64
}

// A Pong answers the ping Seq. It says whether the receiver of the ping has the edge.
type Pong struct {
	Seq uint64
	OK  bool
}

// A Drop says that the sender has no edge to the receiver any more.
type Drop struct{}

// A Probe asks whether a lost node is back. An Alive answers that it is.
type (
	Probe struct{}
	Alive struct{}
)

// An Ack answers the request ID.
type Ack struct {
	ID uint64
	OK bool
}

// A Hop passes a walk on. It is a request: the receiver acknowledges it.
type Hop struct {
	ID   uint64
	Walk Walk
}

// A Walk is the state of a random walk, which goes from node to node: a Seek, a Search or a Climb.
type Walk interface {
	walk() (mix, scan int)
	valid() bool
}

// A Seek is a walk that looks for edges that the node Origin lacks, or for an edge in exchange for
// one of Origin's own. Mix is the number of the walk's first steps. After these steps, the walk is
// at each node with the same probability. Scan is the largest number of further nodes that the walk
// visits. Each of these may have an edge for Origin.
type Seek struct {
	Origin    Name
	ID        uint64 // chosen by Origin
	Out, In   bool   // the directions that Origin lacks
	Give      Name   // Origin wants to exchange its edge to this node for another; "": it does not
	Apart     bool   // only with a node of a small part of the graph that Origin is not in
	Outs      []Name // Origin's outgoing neighbours, to which it needs no second edge
	Mix, Scan int
	Revisits  int // number of visits to nodes where the walk had been before
}

// A Grant says that the sender gives the receiver an edge. The edge leads to the node that Out
// names. Walk is the id of the receiver's walk that asked for the edge. A Grant is a request.
type Grant struct {
	ID, Walk uint64
	Out      Name
	Take     bool // the sender gets an edge to the receiver in return
	Give     bool // the sender gets the receiver's edge to Seek.Give in return
}

// A Revoke takes back a Grant. Out names the node to which the granted edge leads. A Revoke is a
// request.
type Revoke struct {
	ID  uint64
	Out Name
}

// A Handover says that the sender's edge to the receiver now belongs to another node, which To
// names. It is a request.
type Handover struct {
	ID uint64
	To Name
}

// A Leaving is a request: it says that the sender leaves. The receiver has an edge to the sender.
// It redirects this edge to the node that Instead names, or drops the edge if the field is empty or
// the node is not usable.
type Leaving struct {
	ID      uint64
	Instead Name
}

// An Ended says that a walk of the receiver ended in vain. Walk is the walk's id. Few says that
// there are few nodes. An Ended is a request.
type Ended struct {
	ID, Walk uint64
	Few      bool
}

func (Ping) message()     {}
func (Pong) message()     {}
func (Drop) message()     {}
func (Probe) message()    {}
func (Alive) message()    {}
func (Ack) message()      {}
func (Hop) message()      {}
func (Grant) message()    {}
func (Handover) message() {}
func (Revoke) message()   {}
func (Leaving) message()  {}
func (Ended) message()    {}

func (s Seek) walk() (mix, scan int) { return s.Mix, s.Scan }

func (s Seek) valid() bool {
	if !s.Origin.valid() || len(s.Outs) > MaxDegree || s.Give != "" && !s.Give.valid() ||
		s.Revisits < 0 {
		return false
	}
	for _, name := range s.Outs {
		if !name.valid() {
			return false
		}
	}
	return s.Give != "" || !s.Apart && (s.Out || s.In)
}
