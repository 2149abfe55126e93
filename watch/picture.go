package watch

import "github.com/cloudprofiler/cloudprofiler/coordinator"

// Picture is what a fleet logs at present. Programs read its JSON, so fields are only added, never
// changed.
type Picture struct {
	Run       string            `json:"run,omitempty"` // "": no run is under way
	Phase     coordinator.Phase `json:"phase,omitempty"`
	Window_ns int64             `json:"window_ns"`

	// Age_ns is the longest time that can have passed since the end of what the picture shows. If
	// it shows nothing, Age_ns is −1.
	Age_ns    int64     `json:"age_ns"`
	Reference Reference `json:"reference"`
	OneIn     uint64    `json:"one_in,string"` // at least one tuple in this many is in the sample
	Tuples    int       `json:"tuples"`        // tuples that passed a second point in the window

	Spans  []Span   `json:"spans"`  // the slowest first
	Points []Point  `json:"points"` // sorted by name
	Nodes  []Node   `json:"nodes"`  // sorted by name
	Notes  []string `json:"notes"`  // what is unknown or wrong
}

// Reference is the node in whose cycles durations are given.
type Reference struct {
	Node  string  `json:"node"`
	Lo_hz float64 `json:"lo_hz"` // the least and the highest possible frequency of its counter
	Hi_hz float64 `json:"hi_hz"`
	Clock string  `json:"clock"` // the clock against which the frequency was measured
}

// Interval is a duration: at least Lo and at most Hi, in cycles and in ns.
type Interval struct {
	Lo_cycles int64   `json:"lo_cycles"`
	Hi_cycles int64   `json:"hi_cycles"`
	Lo_ns     float64 `json:"lo_ns"` // these include the error of the frequency
	Hi_ns     float64 `json:"hi_ns"`
}

// Span is the time that tuples took from one point to the next, or from their first point to their
// last.
type Span struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Whole bool   `json:"whole,omitempty"` // from a tuple's first point to its last

	Tuples   int      `json:"tuples"` // tuples from which the percentiles come
	P50      Interval `json:"p50"`
	P99      Interval `json:"p99"`
	Estimate bool     `json:"estimate,omitempty"` // a relation that the span needs is suspect
	LeftOut  int      `json:"left_out,omitempty"` // tuples that may have passed a point unseen
	Unknown  int      `json:"unknown,omitempty"`  // tuples with an unknown duration
	To_s     Rate     `json:"to_rate"`            // rate of the events at To
	Some     string   `json:"some,omitempty"`     // why the span may lack tuples of the sample
	spread   *spread  `json:"-"`
}

// Rate is a number of events per second. If the bounds are unknown, Lo and Hi are the same
// estimate. If only the upper bound is unknown, as before a node's second Sample, Hi is
// math.MaxFloat64.
type Rate struct {
	Lo float64 `json:"lo"`
	Hi float64 `json:"hi"`
}

// Point is what channels at one point log, on all nodes.
type Point struct {
	Name     string   `json:"name"`
	Events   uint64   `json:"events,string"` // exact number of events in about the window
	Rate     Rate     `json:"rate"`
	Dropped  uint64   `json:"dropped,string"`
	Handlers []string `json:"handlers"`
	Some     string   `json:"some,omitempty"` // why tuples may pass this point unseen
}

// Node describes what one node sends.
type Node struct {
	Name   string `json:"name"`
	Age_ns int64  `json:"age_ns"` // as in Picture; −1: unknown, or nothing is sent
	Bits   int    `json:"bits"`   // one tuple in 2^Bits is in its sample
	Rate   Rate   `json:"rate"`   // rate of all its events
	State  string `json:"state,omitempty"`
}
