package analysis

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// AnswerVersion is the version of the Answer's JSON. Fields are only ever added within one.
const AnswerVersion = 1

// Answer is everything that was found in a run. Its JSON is what "cprof analyze --json" prints and what a report page is made from.
//
// Numbers whose name ends in _cycles are cycles of the reference node. Values that cross nodes are intervals, lo_cycles to hi_cycles. A
// counter's reading or an id may need 64 bits and is a decimal string; durations and counts are
// numbers. Seconds appear nowhere: divide by the reference's frequency, which has an interval of its
// own, as Reference.Seconds does.
type Answer struct {
	Version int    `json:"version"`
	Run     string `json:"run"`
	Note    string `json:"note,omitempty"`

	Complete bool `json:"complete"` // the run was ended and collected

	// Partial tells that something is suspect or missing: see Findings and Missing.
	Partial bool `json:"partial"`

	Reference Reference `json:"reference"`
	Nodes     []Node    `json:"nodes"`
	Pairs     []Pair    `json:"pairs"`

	// ThirdNodes says how far other nodes narrow what is known of two: agreed, any, none.
	ThirdNodes tscratio.ThirdNodes `json:"third_nodes"`

	Points   []Point    `json:"points"` // in the order in which tuples pass them
	Channels []Channel  `json:"channels"`
	Legs     []Leg      `json:"legs"`       // between points that follow each other: the graph's edges
	Routes   []Route    `json:"routes"`     // which of them the same tuples go, and which are slow
	EndToEnd []Leg      `json:"end_to_end"` // from where tuples begin to where they end, unless one of Legs is just that
	Length   *RunLength `json:"run_length,omitempty"`
	Counters []Counter  `json:"counters,omitempty"` // of channels that count

	// Bins is the time axis of everything over time.
	Bins Bins `json:"bins"`

	// Comparisons put our bound beside what others would have said, for each pair of nodes that is related.
	Comparisons []Comparison `json:"comparisons,omitempty"`

	ReturnTrips []ReturnTrips `json:"return_trips,omitempty"`

	// Held is how all durations of Legs and EndToEnd went that were held against the truth; absent where that is not known.
	Held *Held `json:"held,omitempty"`

	Slowest  []Way     `json:"slowest,omitempty"`
	Findings []Finding `json:"findings,omitempty"`
	Missing  []Missing `json:"missing,omitempty"`

	Work Work `json:"work"`
}

// Reference is the node in whose cycles the answer is given.
type Reference struct {
	Node   string `json:"node"`
	Chosen bool   `json:"chosen"` // by the analysis, for its small bounds
	// The interval of its frequency, and what that was measured against: the one frequency of all
	// that is shown in seconds. Both ends the same: nominal, nobody measured it. 0: not known.
	FrequencyLo_hz float64 `json:"frequency_lo_hz,omitempty"`
	FrequencyHi_hz float64 `json:"frequency_hi_hz,omitempty"`
	Source         string  `json:"frequency_source,omitempty"`
}

// Node is a node of the run.
type Node struct {
	Name             string            `json:"name"`
	ID               string            `json:"id,omitempty"`
	Epoch            string            `json:"epoch"`
	Quantum_cycles   uint64            `json:"quantum_cycles"`            // of its own counter
	CoreSlack_cycles uint64            `json:"core_slack_cycles"`         // of its own counter
	FrequencyLo_hz   float64           `json:"frequency_lo_hz,omitempty"` // nothing is shown by it
	FrequencyHi_hz   float64           `json:"frequency_hi_hz,omitempty"`
	Virtual          bool              `json:"virtual"`
	Facts            map[string]string `json:"facts,omitempty"`
	Left             string            `json:"left,omitempty"`
}

// Pair is what is known about two counters, over the time in which both were measured.
type Pair struct {
	A string `json:"a"`
	B string `json:"b"`
	// Half-widths of B's readings among A's, by the direct relation and third nodes. This is the median.
	Bound_cycles    uint64  `json:"bound_cycles"`
	Worst_cycles    uint64  `json:"worst_cycles"`
	Best_cycles     uint64  `json:"best_cycles"`
	Wander_ppm      float64 `json:"wander_ppm"`     // computed with
	Declared_ppm    float64 `json:"declared_ppm"`   // asked for
	LeastWander_ppm float64 `json:"wander_min_ppm"` // smallest that the data allow
	Window_s        float64 `json:"window_s"`
	Verdict         string  `json:"verdict"` // consistent, suspect
	Rate            float64 `json:"rate"`    // A's cycles in one of B's, the middle of its interval
	// Over time, for plots: the bound at evenly spread readings.
	Bounds_cycles []uint64 `json:"bounds_cycles"`
}

// Point is a place in the program, all its instances together.
type Point struct {
	Name  string `json:"name"` // actor/point
	Actor string `json:"actor"`

	Nodes  []string `json:"nodes"`
	Events uint64   `json:"events"` // in the logs, poison apart

	Source bool `json:"source"` // no point comes before it
	Sink   bool `json:"sink"`   // none comes after it

	Tuples     uint64 `json:"tuples"`     // that passed
	Duplicates uint64 `json:"duplicates"` // events of tuples that had passed before
	Lost       uint64 `json:"lost"`       // tuples that are seen no more, though a later one of the same node went on: lost, or filtered on purpose
	InFlight   uint64 `json:"in_flight"`  // tuples that are seen no more, and no later one of the same node either
	Appeared   uint64 `json:"appeared"`   // tuples that were not seen before, though this is no source
	Disordered uint64 `json:"disordered"` // events that came after a greater id of the same origin (RFC 4737)

	// Undecided says why lost tuples cannot be told from others here; empty: they can.
	Undecided string `json:"undecided,omitempty"`

	PerBin []uint64 `json:"per_bin"` // events in each bin
}

// Channel is the log of one open of one channel.
type Channel struct {
	Name        string `json:"name"`
	Node        string `json:"node"`
	Incarnation string `json:"incarnation"`
	Handler     string `json:"handler"` // at the beginning
	Rows        uint64 `json:"rows"`
	Poison      uint64 `json:"poison"`
	Dropped     uint64 `json:"dropped"`    // accounted for
	Unaccounted uint64 `json:"missing"`    // written once, and not accounted for
	Damage      int    `json:"damage"`     // damaged stretches
	Sealed      bool   `json:"sealed"`     // the log was ended
	Changes     int    `json:"changes"`    // of its handler
	Disordered  uint64 `json:"disordered"` // as in Point
}

// Leg is a stretch of tuples' ways: from one point to another.
type Leg struct {
	From string `json:"from"`
	To   string `json:"to"`

	// Kind is computation (start to end, or recv to send, of one actor), inside (others within an actor), transfer, or end-to-end.
	Kind string `json:"kind"`
	// Origin says, of tuples that were made of others, from which of those the leg begins: earliest or latest. Empty: none were.
	Origin string `json:"origin,omitempty"`
	// Whole is how many tuples went their whole way here: from where they began to where they ended no point can lie between, so that nothing of
	// EndToEnd says it again.
	Whole uint64 `json:"whole,omitempty"`

	All    Durations  `json:"all"`
	Local  *Durations `json:"local,omitempty"`  // both events on one node; absent where there are none
	Remote *Durations `json:"remote,omitempty"` // on two
	Pairs  []NodePair `json:"node_pairs"`

	// Over time, by when the tuple was at From: what fell into each bin, to 3 %.
	OverTime []BinDurations `json:"over_time"`
}

// NodePair is the part of a leg between two nodes.
type NodePair struct {
	From string `json:"from"`
	To   string `json:"to"`
	Durations
}

// Durations are many durations of one kind.
type Durations struct {
	Count uint64 `json:"count"`

	// Percentiles are [that of the los, that of the his]. Beyond 65,536 durations they are rounded outward, by 1/2048 at most.
	Percentiles Percentiles `json:"percentiles"`
	Mean        Interval    `json:"mean"`
	Min         Interval    `json:"min"`
	Max         Interval    `json:"max"`

	Bounds    []BoundPercentile `json:"bounds"` // of half-widths
	Scenarios map[string]uint64 `json:"scenarios"`

	Suspect   uint64 `json:"suspect"`   // rest on a suspect relation: estimates
	Unplaced  uint64 `json:"unplaced"`  // could not be computed and are not counted above: the nodes are not related then
	Before    uint64 `json:"before"`    // From surely came first
	Undecided uint64 `json:"undecided"` // the bound does not tell
	After     uint64 `json:"after"`     // To surely came first: received before sent, must be 0

	Held *Held `json:"held,omitempty"` // against the truth; absent where that is not known

	// How many los, his and half-widths fell where, in at most 16 steps for each power of two: for plots.
	Lows   []Bin `json:"lows"`
	Highs  []Bin `json:"highs"`
	Widths []Bin `json:"widths"`
}

// Interval is a duration's.
type Interval struct {
	Lo_cycles int64 `json:"lo_cycles"`
	Hi_cycles int64 `json:"hi_cycles"`
}

func intervalOf(s tscratio.Span) Interval { return Interval{s.Lo, s.Hi} }

// Percentiles are those of the same durations.
type Percentiles []Percentile

// At is the percentile of so many of 100; ok is false where it is not among them.
func (p Percentiles) At(percent float64) (at Interval, ok bool) {
	i := slices.IndexFunc(p, func(p Percentile) bool { return p.Percent == percent })
	if i < 0 {
		return Interval{}, false
	}
	return p[i].Interval, true
}

// Percentile is one of durations.
type Percentile struct {
	Percent float64 `json:"percent"`
	Interval
}

// BoundPercentile is one of half-widths.
type BoundPercentile struct {
	Percent      float64 `json:"percent"`
	Bound_cycles uint64  `json:"bound_cycles"`
}

// Bin is a part of an axis of durations.
type Bin struct {
	Lo_cycles int64  `json:"lo_cycles"`
	Hi_cycles int64  `json:"hi_cycles"`
	Count     uint64 `json:"count"`
}

// Bins is the time axis: Count bins of Width_cycles each, from From_cycles on the reference's counter.
type Bins struct {
	From_cycles  Reading `json:"from_cycles"`
	Width_cycles uint64  `json:"width_cycles"`
	Count        int     `json:"count"`
}

// BinDurations is what fell into one bin.
type BinDurations struct {
	Bin   int      `json:"bin"`
	Count uint64   `json:"count"`
	P50   Interval `json:"p50"`
	P99   Interval `json:"p99"`
}

// RunLength is the time from the first tuple of all first-last channels to the last of the first poisons that each had, or to the last tuple where
// there was no poison.
type RunLength struct {
	Interval
	From    string `json:"from"` // channel and node
	To      string `json:"to"`
	Poison  bool   `json:"poison"` // the end is a poison's
	Tuples  uint64 `json:"tuples"` // that the channels at the end counted
	Verdict string `json:"verdict"`
}

// Counter is the throughput of a channel that counts.
type Counter struct {
	Channel string `json:"channel"`
	Node    string `json:"node"`
	Total   uint64 `json:"total"`
	// From each sample to the next, the time between them as an interval.
	Periods []Period `json:"periods"`
}

// Period is the time between two samples of a counter.
type Period struct {
	From_cycles Reading  `json:"from_cycles"` // the middle of the interval in which it lies on the reference's counter
	Length      Interval `json:"length"`
	Count       uint64   `json:"count"`
}

// Way is the whole way of a tuple.
type Way struct {
	ID     Reading  `json:"id"`
	Total  Interval `json:"total"`
	Passed []Passed `json:"passed"`
}

// Passed is an event on a tuple's way.
type Passed struct {
	Point   string    `json:"point"`
	Channel string    `json:"channel"`
	Node    string    `json:"node"`
	Reading Reading   `json:"reading"` // of the node's own counter
	At      Interval  `json:"at"`      // since the way's first event
	Since   *Interval `json:"since,omitempty"`
	Verdict string    `json:"verdict"`
}

// Finding is something that whoever reads the answer must know.
type Finding struct {
	Kind FindingKind `json:"kind"`
	Text string      `json:"text"`
}

// FindingKind says of what sort a finding is. Words are only ever added.
type FindingKind string

const (
	FindSuspect    FindingKind = "suspect"    // a relation is: what rests on it is an estimate
	FindImpossible FindingKind = "impossible" // received before sent: an assumption is broken
	FindUndecided  FindingKind = "undecided"  // the run cannot tell
	FindDamage     FindingKind = "damage"     // of logs
	FindNote       FindingKind = "note"       // good to know; does not make an answer partial
)

// Missing is a part of the run that is not there, or not whole.
type Missing struct {
	Part   string `json:"part"`
	Reason string `json:"reason"`
}

// Work is what the analysis took.
type Work struct {
	Events        uint64  `json:"events"`
	Tuples        uint64  `json:"tuples"`
	Seconds       float64 `json:"seconds"`
	Scratch_bytes int64   `json:"scratch_bytes"`
}

// Reading is a 64-bit counter value or id: a decimal string in JSON, because a page's numbers have 53 bits.
type Reading uint64

// MarshalJSON writes a string.
func (r Reading) MarshalJSON() ([]byte, error) {
	return json.Marshal(strconv.FormatUint(uint64(r), 10))
}

// UnmarshalJSON reads a string.
func (r *Reading) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	v, err := strconv.ParseUint(s, 10, 64)
	*r = Reading(v)
	return err
}

// percents_milli are the percentiles of an answer, in thousandths of a percent.
var percents_milli = []uint64{
	1_000, 5_000, 10_000, 25_000, 50_000, 75_000, 90_000, 95_000, 99_000, 99_900, 99_990, 99_999,
}
