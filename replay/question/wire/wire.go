package wire

// Version is the version of both messages.
const Version = 1

// Request asks for an order after which a condition holds. Without events, only the expressions are
// checked.
type Request struct {
	Version int `json:"version"`

	Find   string   `json:"find"`
	States []string `json:"states"`
	Events []Event  `json:"events"`
	// Lanes has the node of each event. Need says, for each event, how many events of each node are
	// before it.
	Lanes []int     `json:"lanes"`
	Need  [][]int32 `json:"need"`
}

// Event is what expressions see of an event, as event.node and so on.
type Event struct {
	Node    string `json:"node"`
	Channel string `json:"channel"` // such as parser#3/start
	Actor   string `json:"actor"`   // parser
	Point   string `json:"point"`   // start
	Handler string `json:"handler"`
	ID      uint64 `json:"id,string"`
}

// Response is the answer.
type Response struct {
	Version int `json:"version"`

	// Bad says what is wrong with an expression. If it is set, all other fields are empty.
	Bad string `json:"bad,omitempty"`

	// Order is the shortest order after which the condition holds. It is empty if there is none.
	Order []int `json:"order"`
	// Holds is true if there is such an order. The order may have no events.
	Holds bool `json:"holds"`
	// Places is the number of places that the search looked at. Cut is true if the search stopped
	// before it had looked at all places. In this case an order may exist although none was found.
	Places int  `json:"places"`
	Cut    bool `json:"cut"`
	// Visible is the number of events that the search permuted.
	Visible int `json:"visible"`

	// States are the names of the states, and Values their texts after each event of Order.
	States []string   `json:"states"`
	Values [][]string `json:"values"`
}
