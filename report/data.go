package report

import "github.com/cloudprofiler/cloudprofiler/analysis"

// Version is the version of Data that this package writes. A page shows only data of this version.
const Version = 1

// MaxBytes is the largest size of a page.
const MaxBytes = 3 << 20

// Data is all that one page shows. If a part is empty, Absent has the reason. FORMAT.md has the
// unit and the meaning of each field.
//
// Durations are in cycles of the reference node. So are the ends of a tuple's steps, which are
// counted from the tuple's first event. 64-bit counters and ids are decimal strings.
type Data struct {
	Version int `json:"version"`

	Run         Run          `json:"run"`
	Reference   Reference    `json:"reference"`
	Verdict     Verdict      `json:"verdict"` // verdict of the whole page: suspect if any part is
	Timeline    Timeline     `json:"timeline"`
	Totals      Totals       `json:"totals"`
	Actors      []Actor      `json:"actors"`
	Paths       []Path       `json:"paths"`
	Spans       []Span       `json:"spans"`
	Throughput  []Throughput `json:"throughput"`
	Comparisons []Comparison `json:"comparisons"`
	Truth       Truth        `json:"truth"`
	Tuples      []Tuple      `json:"tuples"`
	Messages    Messages     `json:"messages"`
	Inferred    Inferred     `json:"inferred"`
	Nodes       []Node       `json:"nodes"`
	Pairs       []Pair       `json:"pairs"`
	Assumptions []Assumption `json:"assumptions"`
	Findings    []Finding    `json:"findings"`
	Remarks     []Remark     `json:"remarks"`
	Missing     []Missing    `json:"missing"`
	Undecided   []string     `json:"undecided"` // what the run cannot decide, a sentence each
	Absent      []Absent     `json:"absent"`
}

// Verdict says whether the data refute the assumptions that a value rests on.
type Verdict string

const (
	// Consistent data do not refute the assumptions.
	Consistent Verdict = "consistent"
	// Suspect data refute the assumptions, or nearly refute them: the value is an estimate, not a
	// bound.
	Suspect Verdict = "suspect"
)

// Run is what was measured.
type Run struct {
	Name    string `json:"name"`
	Note    string `json:"note"`
	Begun   UTC    `json:"begun"`
	Ended   UTC    `json:"ended"`   // zero: not known
	Program string `json:"program"` // what made the page
}

// UTC is an instant that is known only as an interval, in ns since 1970.
type UTC struct {
	Lo_ns int64 `json:"lo_ns,string"`
	Hi_ns int64 `json:"hi_ns,string"`
}

// Reference is the node in whose cycles everything is given. The page uses its frequency to show
// seconds.
type Reference struct {
	Node           string   `json:"node"`
	Why            string   `json:"why"`   // why it is the reference
	Lo_hz          float64  `json:"lo_hz"` // frequency; 0: not known, the page shows only cycles
	Hi_hz          float64  `json:"hi_hz"`
	Hz_source      string   `json:"hz_source"`
	Seconds        string   `json:"seconds"`    // what seconds mean on this page
	Wander_ppb     float64  `json:"wander_ppb"` // declared wander
	Window_ns      int64    `json:"window_ns"`
	Length         Interval `json:"length"` // length of the run: see Length_means
	Length_verdict Verdict  `json:"length_verdict"`
	Length_means   string   `json:"length_means"` // from which event to which
}

// Timeline divides the run into equal buckets of time. Each series has one value for each bucket.
type Timeline struct {
	Start         uint64 `json:"start,string"` // the reference counter at the beginning
	Bucket_cycles int64  `json:"bucket_cycles"`
	Buckets       int    `json:"buckets"`
}

// Totals counts what was read.
type Totals struct {
	Events   int64 `json:"events"`
	Tuples   int64 `json:"tuples"`   // tuples that were seen
	Complete int64 `json:"complete"` // tuples that passed the whole path
	Channels int64 `json:"channels"`
	// Lacks says why not all tuples were seen where they begin. Empty: all were seen there.
	Lacks string `json:"lacks"`
}

// Interval is an interval that contains a duration or, in a Step, a moment.
type Interval struct {
	Lo_cycles int64 `json:"lo_cycles"`
	Hi_cycles int64 `json:"hi_cycles"`
}

// Actor is a box of the graph: an operator with all of its instances.
type Actor struct {
	Name   string   `json:"name"`
	Nodes  []string `json:"nodes"`
	Events int64    `json:"events"`
}

// Path is one of the paths that tuples take, from the operators where they begin to those where
// they end. Tuples that were made of others have a path of their own.
type Path struct {
	Begins  []string `json:"begins"` // operators at which its tuples begin
	Ends    []string `json:"ends"`   // operators at which they end
	Points  string   `json:"points"` // points at which they begin
	Tuples  int64    `json:"tuples"`
	Made_of []int    `json:"made_of"` // indices of the paths whose tuples these are made of
	Of      string   `json:"of"`      // which tuples Slowest describes
	Unsure  string   `json:"unsure"`  // why no order is proven, or shares are withheld
	Slowest []Slow   `json:"slowest"` // a few spans, the largest share first
}

// Slow is an element of the list of the slowest spans: a span between two points, on all nodes
// together.
type Slow struct {
	Name    string   `json:"name"`
	Points  string   `json:"points"`
	Means   string   `json:"means"`
	Median  Interval `json:"median"`
	Of      string   `json:"of"` // which tuples have this median; empty: all
	Verdict Verdict  `json:"verdict"`
	// Share is the part of the tuples' end-to-end time that they spent on this span while it was on
	// their critical path. If shares are not known, spans are ordered by their medians.
	Share  Share  `json:"share"`
	Lacks  string `json:"lacks"`  // as in Span
	Surely bool   `json:"surely"` // its share or median surely exceeds those of all spans after it
}

// Share is a share from 0 to 1, as an interval. If hi is 0, the share is not known.
type Share struct {
	Lo float64 `json:"lo"`
	Hi float64 `json:"hi"`
}

// Kind says what a span is.
type Kind string

const (
	Computation Kind = "computation" // within one operator, from its start to its end
	Inside      Kind = "inside"      // within one operator, between two other points
	Transfer    Kind = "transfer"    // from one operator to the next
	Waiting     Kind = "waiting"     // a branch that waited at its end for another branch
	Gap         Kind = "gap"         // across points whose logs do not have every tuple
	EndToEnd    Kind = "end_to_end"  // from the first point to the last
)

// Place says whether the ends of a span lie on one node.
type Place string

const (
	Local  Place = "local"
	Remote Place = "remote"
)

// Span is a row of the page. It shows durations of one span, and their bounds. A span has a row for
// each pair of nodes. If it has many pairs, it instead has two rows: one for its durations within
// nodes, and one for those between nodes.
type Span struct {
	ID        string          `json:"id"` // unique in the page
	Name      string          `json:"name"`
	Kind      Kind            `json:"kind"`
	Place     Place           `json:"place"`
	From      string          `json:"from"`   // operator
	To        string          `json:"to"`     // operator; the same for a computation
	Points    string          `json:"points"` // where it begins and ends, as "from → to"
	Means     string          `json:"means"`  // what tuples wait for, if the points show it
	Nodes     []string        `json:"nodes"`  // the nodes of both ends; one if both are the same
	Scenarios []ScenarioCount `json:"scenarios"`
	Verdict   Verdict         `json:"verdict"`
	Count     int64           `json:"count"`
	Suspect   int64           `json:"suspect"` // how many of Count are estimates
	// Lacks says why the durations are not those of all tuples. If it is empty, they are those of
	// all tuples.
	Lacks string `json:"lacks"`

	// Percentiles has the percentiles 0, 25, 50, 75 and 100, and others. It may be empty.
	Percentiles []Percentile `json:"percentiles"`
	Mean        Interval     `json:"mean"`
	// Whiskers are the outermost durations within 1.5 interquartile ranges of the box, which
	// reaches from percentile 25 to 75.
	Whiskers [2]Interval `json:"whiskers"`
	Outliers int64       `json:"outliers"` // durations beyond the whiskers
	Density  Density     `json:"density"`  // density of the middles of the durations

	Bounds       []Bound `json:"bounds"`        // percentiles of the half-widths
	BoundDensity Density `json:"bound_density"` // density of the half-widths

	Over []Over `json:"over"` // percentiles over the timeline
	// Pauses says how much of the time lay in pauses of JVMs. It covers all rows of a span
	// together, and only the first row of the span has it. If the time in pauses is not known,
	// Pauses is empty.
	Pauses string `json:"pauses"`
	// Only the first row of a span has an Over, which covers all rows of the span together. In the
	// other rows, Over_same is the id of the first.
	Over_same string `json:"over_same"`
}

// ScenarioCount is the number of durations that were computed in one way. Scenario is the name of
// that way: which nodes the two events and the reference are on (tscratio.Scenario).
type ScenarioCount struct {
	Scenario string `json:"scenario"`
	Count    int64  `json:"count"`
}

// Percentile is an interval: the percentile of all low ends, and the percentile of all high ends.
type Percentile struct {
	P         float64 `json:"p"` // in percent
	Lo_cycles int64   `json:"lo_cycles"`
	Hi_cycles int64   `json:"hi_cycles"`
}

// Bound is a percentile of half-widths.
type Bound struct {
	P      float64 `json:"p"`
	Cycles int64   `json:"cycles"`
}

// Density is how values are distributed: their shares in bins that are equally wide on a
// logarithmic axis. Values below 1 cycle are in the first bin.
type Density struct {
	From_cycles float64   `json:"from_cycles"`
	To_cycles   float64   `json:"to_cycles"`
	Shares      []float64 `json:"shares"` // their sum is 1; empty: nothing is known
}

// Over is one percentile of a span over the timeline. A duration belongs to the moment at which its
// tuple began the span.
type Over struct {
	P         float64 `json:"p"`
	Lo_cycles Column  `json:"lo_cycles"`
	Hi_cycles Column  `json:"hi_cycles"`
}

// Throughput is how many events were logged or counted at one place, over the timeline.
type Throughput struct {
	Name   string `json:"name"`
	Source string `json:"source"` // what was counted: events in logs, or by a channel's counter
	Count  Column `json:"count"`  // in each bucket
	Lacks  string `json:"lacks"`  // why these are not all; empty: they are
}

// Comparison has the bound that each method gives for one pair of nodes, over the timeline.
type Comparison struct {
	A       string   `json:"a"`
	B       string   `json:"b"`
	Verdict Verdict  `json:"verdict"`
	Methods []Method `json:"methods"`
}

// These are the names of methods. A comparison has at most one method of each name.
const (
	Ours   = analysis.Ours
	MinRTT = analysis.MinRTT
	ReT    = analysis.ReT
	NTP    = analysis.NTP
)

// Method is one method and its bound: how far a value may be wrong, up or down.
type Method struct {
	Name   string `json:"name"`
	Proven bool   `json:"proven"` // proven under the assumptions on the page; false: only claimed
	Bound  Column `json:"bound_cycles"`
	Absent string `json:"absent"` // why there is no value at all
	// Times is the ratio of the method's bound to ours, where both have a value. It is 0 for our
	// own method, and if the two never have a value at the same time.
	Times float64 `json:"times"`
	Gaps  int     `json:"gaps"` // bins in which only our method has a value
}

// Truth compares values with the truth, which is known only for virtual nodes. If the truth is not
// known, Durations.Held is 0.
type Truth struct {
	Durations Held         `json:"durations"` // all durations of the page
	Remote    Held         `json:"remote"`    // durations between nodes
	Spans     []TrueSpan   `json:"spans"`
	Methods   []TrueMethod `json:"methods"`
}

// Held counts the values that were compared with the truth.
type Held struct {
	Held    int64 `json:"held"`    // values that were compared
	Outside int64 `json:"outside"` // values whose interval lacks the truth: 0 if proven

	// The error of a value, divided by its bound, is the part of the bound that the value uses.
	// Shares is the distribution of these parts, in equal steps from 0 to 1. It covers the values
	// whose interval contains the truth, and its sum is 1. Used_50 is the median part, rounded up
	// to a step. Largest is the largest part. It is above 1 if the truth is outside of an interval.
	Shares  []float64 `json:"shares"`
	Used_50 float64   `json:"used_50"`
	Used_99 float64   `json:"used_99"`
	Largest float64   `json:"largest"`
}

// TrueSpan compares durations of a span with the truth: either the durations within nodes, or those
// between nodes.
type TrueSpan struct {
	Name   string   `json:"name"`
	Points string   `json:"points"`
	Kind   Kind     `json:"kind"`
	Place  Place    `json:"place"`
	Median Interval `json:"median"`
	// True is exact to within a few cycles, because each virtual counter shows only whole cycles.
	True Interval `json:"true_median"`
	Held Held     `json:"held"`
}

// TrueMethod compares the values of a method with the truth, on all pairs of nodes together.
type TrueMethod struct {
	Name  string `json:"name"`
	What  string `json:"what"`  // what was compared: moments, tuples, pairs of claims
	About string `json:"about"` // what its values mean, if that differs from other methods
	Held  Held   `json:"held"`
}

// Tuple is one tuple with its whole path.
type Tuple struct {
	ID      uint64   `json:"id,string"`
	Why     string   `json:"why"` // why it is shown
	Total   Interval `json:"total"`
	Verdict Verdict  `json:"verdict"`
	Steps   []Step   `json:"steps"` // in the order of the path
	// Pauses are the longest pauses that the JVMs on the path made during the tuple's time, in the
	// order in which they began.
	Pauses []Pause `json:"pauses"`
	// Paused is how much of the time on the critical path lay in pauses. For each step, only the
	// pauses of the JVM in which it begins and of the JVM in which it ends count. If Paused_known
	// is false, Paused is not known.
	Paused       Interval `json:"paused"`
	Paused_known bool     `json:"paused_known"`
}

// Pause is a time in which a JVM let no thread run. Begin and End are counted from the tuple's
// first event.
type Pause struct {
	JVM    string   `json:"jvm"`
	Node   string   `json:"node"`
	Kind   string   `json:"kind"` // what the JVM did
	Begin  Interval `json:"begin"`
	End    Interval `json:"end"`
	Length Interval `json:"length"`
	Steps  []int    `json:"steps"` // the steps that begin or end in the JVM
}

// Step is one span of one tuple's path. Start and End are counted from the tuple's first event.
type Step struct {
	Name  string   `json:"name"`
	Kind  Kind     `json:"kind"`
	From  string   `json:"from"` // node
	To    string   `json:"to"`   // node
	Start Interval `json:"start"`
	End   Interval `json:"end"`
	// Duration is often narrower than End − Start, because the errors of End and Start are not
	// independent.
	Duration  Interval `json:"duration"`
	Scenario  string   `json:"scenario"`
	Verdict   Verdict  `json:"verdict"`
	Undecided bool     `json:"undecided"` // the bound is too wide to tell if End is after Start
}

// Node is one machine.
type Node struct {
	Name    string `json:"name"`
	Epoch   string `json:"epoch"`
	Virtual bool   `json:"virtual"`
	Left    string `json:"left"` // why it left before the end; empty: it stayed
	Facts   []Fact `json:"facts"`
}

// Fact is a known fact about a node.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Pair is the relation of two nodes, or states that there is none.
type Pair struct {
	A            string  `json:"a"`
	B            string  `json:"b"`
	Verdict      Verdict `json:"verdict"`      // empty: not related
	Reason       string  `json:"reason"`       // why the verdict is not consistent
	Bound_cycles int64   `json:"bound_cycles"` // median over the run
	Worst_cycles int64   `json:"worst_cycles"`
	Rate         float64 `json:"rate"`       // cycles of A in one of B: a middle; 0: not known
	Wander_ppb   float64 `json:"wander_ppb"` // the wander with which the bound is computed
	Least_ppb    float64 `json:"least_ppb"`  // the data refute any smaller wander
	Exchanges    int64   `json:"exchanges"`
	Trains       int64   `json:"trains"`
	Paths        string  `json:"paths"` // how the bound was derived: directly, or over which nodes
}

// Assumption is something that the bounds rest on.
type Assumption struct {
	Name    string  `json:"name"`
	Value   string  `json:"value"`
	Means   string  `json:"means"`
	Verdict Verdict `json:"verdict"` // empty: this run cannot test it
}

// Weight is how much a finding matters.
type Weight string

const (
	Good  Weight = "good"  // as it should be
	Note  Weight = "note"  // worth knowing
	Wrong Weight = "wrong" // something is broken: an assumption, a log, a program
)

// Finding is something that was counted.
type Finding struct {
	Name   string `json:"name"`
	Count  int64  `json:"count"`
	Of     int64  `json:"of"` // the total; 0: there is none
	Weight Weight `json:"weight"`
	Means  string `json:"means"`
}

// ReceivedBeforeSent is the name of the finding that must be zero. The page shows it first.
const ReceivedBeforeSent = "received before sent"

// Remark is something that readers of the answer need to know, and that is not a count.
type Remark struct {
	Weight Weight `json:"weight"`
	Text   string `json:"text"`
}

// Missing is a part of the run that is absent or incomplete.
type Missing struct {
	Part   string `json:"part"`
	Reason string `json:"reason"`
}

// The parts that may be absent.
const (
	PartGraph      = "graph"
	PartSegments   = "spans"
	PartLatency    = "latency"
	PartThroughput = "throughput"
	PartBounds     = "bounds"
	PartTruth      = "truth"
	PartTuples     = "tuples"
	PartNodes      = "nodes"
	PartFacts      = "facts"
	PartSeconds    = "seconds"
)

// Absent names a part that the page does not show, and gives the reason. Several Absents may name
// the same part.
type Absent struct {
	Part   string `json:"part"`
	Reason string `json:"reason"`
}
