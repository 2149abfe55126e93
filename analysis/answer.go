package analysis

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// AnswerVersion is the version of the Answer's JSON. Within one version, fields are only added.
const AnswerVersion = 2

// Answer is everything that was found in a run. "cprof analyze --json" prints it as JSON, and a
// report page is made from that JSON.
//
// Numbers whose name ends in _cycles are cycles of the reference node. Values that cross nodes are
// intervals, from lo_cycles to hi_cycles. A counter's reading or an id may need 64 bits, and is a
// decimal string. Durations and counts are numbers. No measured time is in seconds.
// Reference.Seconds converts cycles to seconds: it divides them by the reference's frequency, which
// is an interval, too.
type Answer struct {
	Version int    `json:"version"`
	Run     string `json:"run"`
	Note    string `json:"note,omitempty"`

	Complete bool `json:"complete"` // the run was ended and collected

	// Partial is true if something is suspect or missing: see Findings and Missing.
	Partial bool `json:"partial"`

	Reference Reference `json:"reference"`
	Nodes     []Node    `json:"nodes"`
	Pairs     []Pair    `json:"pairs"`

	// ThirdNodes says which measurements by way of a third node may narrow the relation of two
	// nodes: agreed, any or none.
	ThirdNodes tscratio.ThirdNodes `json:"third_nodes"`

	Points   []Point   `json:"points"` // in the order in which tuples pass them
	Channels []Channel `json:"channels"`
	Spans    []Span    `json:"spans"` // spans between consecutive points: the edges of the graph
	Paths    []Path    `json:"paths"` // paths, and which of their spans are slow
	// EndToEnd has the spans from each point where tuples begin to each point where they end. If no
	// other point can lie between the two, Spans has that span already, and EndToEnd leaves it out.
	EndToEnd []Span     `json:"end_to_end"`
	Length   *RunLength `json:"run_length,omitempty"`
	Counters []Counter  `json:"counters,omitempty"` // results of channels that count

	// Bins is the time axis of everything that is shown over time.
	Bins Bins `json:"bins"`

	// Comparisons show, for each pair of related nodes, our bound beside the bounds of other
	// methods.
	Comparisons []Comparison `json:"comparisons,omitempty"`

	JVMs []JVM `json:"jvms,omitempty"` // the JVMs that logged their pauses

	ReturnTrips []ReturnTrips `json:"return_trips,omitempty"`

	// Held compares all durations of Spans and EndToEnd with the truth. It is absent if the truth
	// is not known.
	Held *Held `json:"held,omitempty"`

	// Slowest has the paths of the slowest tuples. After them come the paths of the slowest tuples
	// that were made of other tuples, such as results of windows.
	Slowest  []TuplePath `json:"slowest,omitempty"`
	Findings []Finding   `json:"findings,omitempty"`
	Missing  []Missing   `json:"missing,omitempty"`

	Work Work `json:"work"`

	Causes Causes `json:"-"`
}

// Reference is the node in whose cycles the answer is given.
type Reference struct {
	Node   string `json:"node"`
	Chosen bool   `json:"chosen"` // the analysis chose it, for its small bounds
	// FrequencyLo_hz and FrequencyHi_hz are the ends of the interval of the node's frequency.
	// Everything that is shown in seconds uses this frequency. If both ends are equal, the
	// frequency is nominal: nobody measured it. If both are 0, the frequency is not known.
	FrequencyLo_hz float64 `json:"frequency_lo_hz,omitempty"`
	FrequencyHi_hz float64 `json:"frequency_hi_hz,omitempty"`
	Source         string  `json:"frequency_source,omitempty"` // what it was measured against
}

// Node is a node of the run.
type Node struct {
	Name             string `json:"name"`
	ID               string `json:"id,omitempty"`
	Epoch            string `json:"epoch"`
	Quantum_cycles   uint64 `json:"quantum_cycles"`    // of the node's counter
	CoreSlack_cycles uint64 `json:"core_slack_cycles"` // of the node's counter
	// for information only: seconds use the frequency of the reference
	FrequencyLo_hz float64           `json:"frequency_lo_hz,omitempty"`
	FrequencyHi_hz float64           `json:"frequency_hi_hz,omitempty"`
	Virtual        bool              `json:"virtual"`
	Facts          map[string]string `json:"facts,omitempty"`
	Left           string            `json:"left,omitempty"`
}

// Pair is what is known about two counters over the time in which both were measured.
type Pair struct {
	A string `json:"a"`
	B string `json:"b"`
	// A reading of B becomes an interval when it is translated into A's cycles, directly and by way
	// of third nodes. The next three fields are the median, the largest and the smallest half-width
	// of such intervals.
	Bound_cycles    uint64  `json:"bound_cycles"`
	Worst_cycles    uint64  `json:"worst_cycles"`
	Best_cycles     uint64  `json:"best_cycles"`
	Wander_ppm      float64 `json:"wander_ppm"`     // the wander that the bounds rest on
	Declared_ppm    float64 `json:"declared_ppm"`   // the wander that was declared
	LeastWander_ppm float64 `json:"wander_min_ppm"` // the smallest wander that the data allow
	Window_s        float64 `json:"window_s"`
	Verdict         string  `json:"verdict"` // consistent, suspect
	Rate            float64 `json:"rate"`    // cycles of A in one of B: the middle of an interval
	// For plots over time: the bound at evenly spaced readings.
	Bounds_cycles []uint64 `json:"bounds_cycles"`
}

// Point is a place in the program, with all its instances.
type Point struct {
	Name  string `json:"name"` // actor/point
	Actor string `json:"actor"`

	Nodes  []string `json:"nodes"`
	Events uint64   `json:"events"` // number in the logs, without poison

	Source bool `json:"source"` // no point precedes this one
	Sink   bool `json:"sink"`   // no point follows this one

	Tuples     uint64 `json:"tuples"`     // tuples that passed the point
	Duplicates uint64 `json:"duplicates"` // further events of tuples that had passed already
	// Lost counts tuples that ended here although a later tuple of the same node reached a later
	// point. If Undecided is not empty, the true numbers may be smaller than Lost and InFlight. The
	// field Perhaps counts further tuples that may be lost or in flight.
	Lost uint64 `json:"lost"`
	// Filtered counts tuples that end here as if a filter dropped them: about the same share of the
	// tuples ends here all the time, and the share is one in twenty or more. A steady loss looks
	// the same. Lost does not count these tuples.
	Filtered uint64 `json:"filtered"`
	// InFlight counts tuples that ended here, and after which no tuple of the same node reached a
	// later point.
	InFlight uint64 `json:"in_flight"`
	// Perhaps counts further tuples that may have ended here. Several tuples have the same id, so
	// it is not known which of them ended.
	Perhaps uint64 `json:"perhaps_ended,omitempty"`
	// Appeared counts tuples that no earlier point saw, although this point is not a source.
	Appeared uint64 `json:"appeared"`
	// Disordered counts events whose id came late: a greater id of the same origin had already been
	// logged (RFC 4737). The origin of an id is the node and the instance that made it.
	Disordered uint64 `json:"disordered"`

	Completeness Completeness `json:"completeness"`

	// Rule is the rule by which all channels of the point choose tuples by their ids, such as
	// "xoy x=1 y=4". It is empty if they use no such rule, or several.
	Rule string `json:"rule,omitempty"`

	// Undecided says why the data do not show which tuples were lost here, or, at a sink, whether
	// tuples ended here. It is empty if the data show it.
	Undecided string `json:"undecided,omitempty"`

	PerBin []uint64 `json:"per_bin"` // events in each bin
}

// Channel describes one log of a channel. A channel that is opened again has another log.
type Channel struct {
	Name        string `json:"name"`
	Node        string `json:"node"`
	Incarnation string `json:"incarnation"`
	Handler     string `json:"handler"` // the handler at the beginning of the log
	Rows        uint64 `json:"rows"`
	Poison      uint64 `json:"poison"`
	Dropped     uint64 `json:"dropped"`    // events that were dropped: the log has their number
	Unaccounted uint64 `json:"missing"`    // rows that were written, but are not in the log
	Damage      int    `json:"damage"`     // damaged places
	Sealed      bool   `json:"sealed"`     // the log was ended
	Changes     int    `json:"changes"`    // how often the handler was changed
	Disordered  uint64 `json:"disordered"` // as in Point
}

// Span describes the tuples that went from one point to another, and how long this took.
type Span struct {
	From string `json:"from"`
	To   string `json:"to"`

	// Kind is computation (start to end, or recv to send, of one actor), inside (any other span
	// within an actor), transfer, waiting, gap, or end-to-end. Waiting is the time of a branch that
	// had to wait at To until another branch arrived there. If the bounds do not tell which branch
	// arrived last, a branch that may be the last is not called waiting. A gap leads past points
	// whose logs do not have every tuple: a tuple may have passed them without a record. Past names
	// these points.
	Kind string   `json:"kind"`
	Past []string `json:"past,omitempty"`

	// Open is true if it is not known whether tuples go directly from From to To. A finding says
	// why.
	Open bool `json:"open,omitempty"`

	// Completeness is how many of the tuples that passed From and To are in the logs. The durations
	// describe only the tuples in the logs.
	Completeness Completeness `json:"completeness"`

	// Origin is set for tuples that were made of other tuples. It says which of these other tuples
	// begins the span: the one that began earliest or the one that began latest.
	Origin string `json:"origin,omitempty"`
	// Whole is the number of tuples whose whole path is this span. For these tuples this span is
	// also the end-to-end span, so EndToEnd leaves them out.
	Whole uint64 `json:"whole,omitempty"`

	All    Durations  `json:"all"`
	Local  *Durations `json:"local,omitempty"`  // on one node; absent if there are none
	Remote *Durations `json:"remote,omitempty"` // between two nodes; absent if there are none
	Pairs  []NodePair `json:"node_pairs"`

	Pauses *SpanPauses `json:"pauses,omitempty"` // absent if no JVM logged pauses

	// For plots over time: the durations in each bin. A duration is in the bin of the time at which
	// the tuple was at From. Values are rounded outward by up to 1/16.
	OverTime []BinDurations `json:"over_time"`
}

// NodePair has those durations of a span that begin on the node From and end on the node To. Both
// may be the same node.
type NodePair struct {
	From string `json:"from"`
	To   string `json:"to"`
	Durations
}

// Durations summarises a set of durations, such as those of one span.
type Durations struct {
	Count uint64 `json:"count"`

	// Percentiles are intervals: [percentile of the low ends, percentile of the high ends]. If
	// there are more than 65,536 durations, the intervals are rounded outward, by at most 1/2048.
	Percentiles Percentiles `json:"percentiles"`
	// Chance shows how far chance may move p50 and p99. It has an interval for each of the two. In
	// 99 of 100 cases, this interval contains the percentile of infinitely many such durations.
	// Tuples that queue behind each other are not independent, so ten durations count as only one
	// observation. A percentile is absent if there are too few durations for an interval. Only
	// Span.All has Chance.
	Chance Percentiles `json:"chance,omitempty"`
	Mean   Interval    `json:"mean"`
	Min    Interval    `json:"min"`
	Max    Interval    `json:"max"`

	Bounds    []BoundPercentile `json:"bounds"` // percentiles of the half-widths
	Scenarios map[string]uint64 `json:"scenarios"`

	Suspect uint64 `json:"suspect"` // durations that are estimates: their relation is suspect
	// Unplaced is the number of durations that could not be computed, because the nodes are not
	// related at that time. No other field counts them.
	Unplaced uint64 `json:"unplaced"`
	// Withheld is the number of durations that could be computed, but may be false. There are two
	// reasons: an end may be the event of another tuple with the same id, or the logs may lack one
	// of the tuples of which the tuple was made. No other field counts these durations.
	Withheld  uint64 `json:"withheld,omitempty"`
	Before    uint64 `json:"before"`    // durations in which From is certainly earlier than To
	Undecided uint64 `json:"undecided"` // durations whose bound is too wide to tell
	After     uint64 `json:"after"`     // durations in which To is certainly earlier: must be 0

	Held *Held `json:"held,omitempty"` // compared with the truth; absent where that is not known

	// For plots: the number of low ends, high ends and half-widths in each bin. There are at most
	// 16 bins for each power of two.
	Lows   []Bin `json:"lows"`
	Highs  []Bin `json:"highs"`
	Widths []Bin `json:"widths"`
}

// Interval is the interval of a duration.
type Interval struct {
	Lo_cycles int64 `json:"lo_cycles"`
	Hi_cycles int64 `json:"hi_cycles"`
}

func intervalOf(s tscratio.Elapsed) Interval { return Interval{s.Lo, s.Hi} }

// Percentiles are percentiles of one set of durations, in rising order.
type Percentiles []Percentile

// At returns the given percentile. ok is false if the set does not have it.
func (p Percentiles) At(percent float64) (at Interval, ok bool) {
	i := slices.IndexFunc(p, func(p Percentile) bool { return p.Percent == percent })
	if i < 0 {
		return Interval{}, false
	}
	return p[i].Interval, true
}

// Percentile is a percentile of durations.
type Percentile struct {
	Percent float64 `json:"percent"`
	Interval
}

// BoundPercentile is a percentile of half-widths.
type BoundPercentile struct {
	Percent      float64 `json:"percent"`
	Bound_cycles uint64  `json:"bound_cycles"`
}

// Bin is one bin of a histogram of durations.
type Bin struct {
	Lo_cycles int64  `json:"lo_cycles"`
	Hi_cycles int64  `json:"hi_cycles"`
	Count     uint64 `json:"count"`
}

// Bins is the time axis: Count bins of Width_cycles each, starting at From_cycles of the
// reference's counter.
type Bins struct {
	From_cycles  Reading `json:"from_cycles"`
	Width_cycles uint64  `json:"width_cycles"`
	Count        int     `json:"count"`
}

// BinDurations are the durations in one bin.
type BinDurations struct {
	Bin   int      `json:"bin"`
	Count uint64   `json:"count"`
	P50   Interval `json:"p50"`
	P99   Interval `json:"p99"`
}

// RunLength is the time from the first tuple to the end of the run, as first-last channels show it.
// A first-last channel logs its first and its last tuple. The first tuple is the earliest that any
// of these channels saw. The end is the latest moment at which one of these channels saw its first
// poison, the id that ends a stream. If no channel saw poison, the end is the last tuple.
type RunLength struct {
	Interval
	From    string `json:"from"` // channel and node
	To      string `json:"to"`
	Poison  bool   `json:"poison"` // the end is a poison
	Tuples  uint64 `json:"tuples"` // number that the channels at the end counted
	Verdict string `json:"verdict"`
}

// Counter is the throughput of a channel that counts.
type Counter struct {
	Channel string `json:"channel"`
	Node    string `json:"node"`
	Total   uint64 `json:"total"`
	// Periods are the times from each sample to the next.
	Periods []Period `json:"periods"`
}

// Period is the time between two samples of a counter.
type Period struct {
	// From_cycles is the middle of the first sample's interval on the reference's counter.
	From_cycles Reading  `json:"from_cycles"`
	Length      Interval `json:"length"`
	Count       uint64   `json:"count"`
}

// TuplePath is the whole path of a tuple. Its events are in the order in which the tuple passed the
// points. Events of parallel branches may come in any order.
type TuplePath struct {
	ID     Reading  `json:"id"`
	Made   bool     `json:"made,omitempty"` // made of other tuples, as the result of a window is
	Total  Interval `json:"total"`
	Passed []Passed `json:"passed"`
	// Paused is how much of the time on the critical path lay in pauses. For each span, only pauses
	// of the JVMs at its two ends count. Pauses are the longest of these pauses, at most 100, in
	// the order of time. Both are absent if no JVM logged pauses.
	Paused *Interval   `json:"paused,omitempty"`
	Pauses []PathPause `json:"pauses,omitempty"`
}

// Passed is one event on a tuple's path.
type Passed struct {
	Point   string   `json:"point"`
	Channel string   `json:"channel"`
	Node    string   `json:"node"`
	Reading Reading  `json:"reading"` // reading of the node's own counter
	At      Interval `json:"at"`      // time since the path's first event
	Verdict string   `json:"verdict"`

	// After lists the spans that end here: one from each event directly before this event. Where
	// branches meet, there are several such events. Since is the time since the latest of them. If
	// the bounds do not show which event is the latest, Since is the time since the event whose
	// interval has the latest middle.
	After []Arrival `json:"after,omitempty"`
	Since *Interval `json:"since,omitempty"`
	// Paused is how much of Since lay in pauses of the JVMs at its two ends; absent if no JVM
	// logged pauses.
	Paused *Interval `json:"paused,omitempty"`
	// Critical says whether the tuple's critical path leads over this event: surely, perhaps or no.
	Critical string `json:"critical"`
}

// Arrival is one of the spans that lead to an event.
type Arrival struct {
	From  int       `json:"from"` // index in Passed of the event where the span begins
	Since *Interval `json:"since,omitempty"`
	// Slack is set only if another span in After surely began later: the tuple then waited here for
	// another branch. Slack is how much earlier this span began than the span that began last.
	Slack *Interval `json:"slack,omitempty"`
}

// Finding is something that a reader of the answer needs to know.
type Finding struct {
	Kind FindingKind `json:"kind"`
	Text string      `json:"text"`
}

// FindingKind is the sort of a finding. Later versions only add kinds.
type FindingKind string

const (
	// a relation is suspect: what rests on it is an estimate
	FindSuspect    FindingKind = "suspect"
	FindImpossible FindingKind = "impossible" // received before sent: an assumption is broken
	FindUndecided  FindingKind = "undecided"  // the run cannot tell
	FindDamage     FindingKind = "damage"     // a log is damaged
	FindNote       FindingKind = "note"       // informative; does not make an answer partial
)

// Missing is a part of the run that is absent or incomplete.
type Missing struct {
	Part   string `json:"part"`
	Reason string `json:"reason"`
}

// Work is what the analysis cost.
type Work struct {
	Events        uint64  `json:"events"`
	Tuples        uint64  `json:"tuples"`
	Seconds       float64 `json:"seconds"`
	Scratch_bytes int64   `json:"scratch_bytes"`
}

// Reading is a 64-bit counter value or id. In JSON it is a decimal string, because a number in a
// browser has only 53 exact bits.
type Reading uint64

// MarshalJSON writes a decimal string.
func (r Reading) MarshalJSON() ([]byte, error) {
	return json.Marshal(strconv.FormatUint(uint64(r), 10))
}

// UnmarshalJSON reads a decimal string.
func (r *Reading) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	v, err := strconv.ParseUint(s, 10, 64)
	*r = Reading(v)
	return err
}

// percents_milli are the percentiles that an answer gives, in thousandths of a percent.
var percents_milli = []uint64{
	1_000, 5_000, 10_000, 25_000, 50_000, 75_000, 90_000, 95_000, 99_000, 99_900, 99_990, 99_999,
}
