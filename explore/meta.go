package explore

import "github.com/cloudprofiler/cloudprofiler/analysis"

// Version is the version of the index. Prepare replaces an index of another version.
const Version = 5

// Meta describes the run of an index. The page reads Meta as JSON. Moments and durations are in
// cycles of the reference node. The page counts moments from Start_cycles, so that they are exact
// numbers in JSON.
type Meta struct {
	Version int    `json:"version"`
	Run     string `json:"run"`
	Note    string `json:"note"`

	Reference analysis.Reference `json:"reference"`
	Seconds   string             `json:"seconds"` // what a second means in this run
	Partial   bool               `json:"partial"` // some results are suspect, missing or undecided
	Complete  bool               `json:"complete"`
	Tuples    uint64             `json:"tuples"`
	Events    uint64             `json:"events"`

	Start_cycles  analysis.Reading `json:"start_cycles"`
	Length_cycles uint64           `json:"length_cycles"`

	Points   []Point            `json:"points"`
	Order    []int              `json:"order"` // points in the order in which tuples pass them
	Channels []Channel          `json:"channels"`
	Lanes    []Lane             `json:"lanes"`
	Spans    []Span             `json:"spans"`
	JVMs     []JVM              `json:"jvms"` // those that logged their pauses
	Findings []analysis.Finding `json:"findings"`

	PauseKinds []string `json:"pause_kinds"` // what JVMs did; each pause has an index of this list

	// ReportAbsent is the reason why the index lacks the report's page. If it is empty, the index
	// has the page.
	ReportAbsent string `json:"report_absent"`
}

// Point is a place in the program where tuples are logged.
type Point struct {
	Name      string `json:"name"`
	Sink      bool   `json:"sink"`
	Lost      uint64 `json:"lost"`
	Filtered  uint64 `json:"filtered"`
	InFlight  uint64 `json:"in_flight"`
	Undecided string `json:"undecided"`
	// Perhaps counts further tuples that may have ended here. Other tuples have the same ids, so no
	// lane and no row says which of them ended.
	Perhaps uint64 `json:"perhaps_ended"`
}

// Channel is one point in one instance of an operator on one node.
type Channel struct {
	Lane  int    `json:"lane"`
	Point int    `json:"point"`
	Ended uint64 `json:"ended"` // tuples that ended here although they could have gone on
}

// Lane is an instance of an operator on a node. Its rows are the stays of tuples. A stay lasts from
// the first event of a tuple in this lane to the last.
type Lane struct {
	Node     string `json:"node"`
	Actor    string `json:"actor"`
	Instance string `json:"instance"` // operator and number
	Count    uint64 `json:"count"`
	Ended    uint64 `json:"ended"` // stays in which a tuple ended although it could have gone on
	JVMs     []int  `json:"jvms"`  // those that ran the instance: several if it was started again
}

// Span is a pair of points, with all durations from one to the other.
type Span struct {
	From        string                `json:"from"`
	To          string                `json:"to"`
	Kind        string                `json:"kind"`
	Count       uint64                `json:"count"`
	Unplaced    uint64                `json:"unplaced"`
	Withheld    uint64                `json:"withheld"`
	Percentiles analysis.Percentiles  `json:"percentiles"` // over the whole run
	Kept        analysis.Completeness `json:"completeness"`
	// Never is the number of tuples that passed From and have no duration of this span.
	Never uint64 `json:"never"`
	// Pauses says how much of the durations lay in pauses of JVMs. Empty: that is not known.
	Pauses string `json:"pauses"`
}

// maxLanes is the largest number of lanes in an index, and also the largest number of spans.
const maxLanes = 1 << 16
