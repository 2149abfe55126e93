package control

import "encoding/json"

// Message is a pointer to one of this package's message structs. FORMAT.md says who sends which
// message, and when.
type Message interface {
	Kind() Kind
	check() error // finds invalid content that Go's types allow
}

// bulkMessage is a message with a third frame, which bulk returns and setBulk decodes.
type bulkMessage interface {
	Message
	bulk() []byte
	setBulk([]byte) error
}

// These are the capabilities of a node that Register.Capabilities may contain.
const (
	CanProbe    = "probe"    // probes other nodes and answers probes
	CanRun      = "run"      // opens and closes runs
	CanTable    = "table"    // applies a handler table
	CanFiles    = "files"    // provides the files of a run
	CanSnapshot = "snapshot" // dumps its flight recorders
	CanWatch    = "watch"    // sends samples of its events while somebody watches
)

// Hello opens a conversation. A client sends it to the server. The server answers with a Challenge
// or a Refusal.
type Hello struct {
	Name     string `json:"name"`     // name of the node
	Software string `json:"software"` // name and version of the client's program, for people
}

// Challenge contains a nonce, which the next Register on the same connection must repeat.
type Challenge struct {
	Nonce string `json:"nonce"`
}

// Register is a node's description of itself. The server answers with a Welcome or a Refusal.
type Register struct {
	Nonce            string          `json:"nonce"`
	Name             string          `json:"name"`
	Instance         string          `json:"instance"` // random; identifies the process
	Epoch            string          `json:"epoch"`
	Nominal_hz       uint64          `json:"nominal_hz,string"`
	Quantum_cycles   uint64          `json:"quantum_cycles,string"`
	CoreSlack_cycles uint64          `json:"core_slack_cycles,string"`
	Number           int             `json:"number,omitempty"` // the node's number in tuple ids
	Virtual          bool            `json:"virtual,omitempty"`
	Machine          string          `json:"machine"` // nodes of one Machine share its Cores
	Cores            int             `json:"cores"`
	Capabilities     []string        `json:"capabilities"`
	ProbeAddress     string          `json:"probe_address,omitempty"` // address:port
	Software         string          `json:"software"`
	Facts            json.RawMessage `json:"facts,omitempty"` // about the node's host, for people

	// Frequency is the measured frequency of the node's counter. It is used only to show results in
	// seconds.
	Frequency *Frequency `json:"frequency,omitempty"`

	// OpenRun names the run that the node has opened and not closed. The server may have ended the
	// run meanwhile.
	OpenRun string `json:"open_run,omitempty"`

	// Graph is the node's name in the graph (package overlay/wire); it is "" if the node takes no
	// part.
	Graph string `json:"graph,omitempty"`
}

// Frequency is an interval that contains the mean rate of a counter, as measured by a clock.
type Frequency struct {
	Lo_millihz uint64 `json:"lo_millihz,string"`
	Hi_millihz uint64 `json:"hi_millihz,string"`
	Clock      string `json:"clock"`
}

// Welcome confirms a registration.
type Welcome struct {
	// Server identifies the server's process. A new process does not know what its predecessor
	// requested.
	Server string `json:"server"`

	Heartbeat_ns int64  `json:"heartbeat_ns"`
	Dead_ns      int64  `json:"dead_ns"` // after this silence, either end gives up the other
	Generation   uint64 `json:"generation,string"`
}

// Refusal says that a request was not carried out, and why. Both ends send refusals.
type Refusal struct {
	Code Code   `json:"code"`
	Text string `json:"text"`
}

// Refuse returns a Refusal. It shortens a text that is too long.
func Refuse(code Code, text string) *Refusal { return &Refusal{code, Cut(text)} }

// Ping tells the server that a client is alive. A client sends one every Heartbeat_ns. The server
// answers with a Pong.
type Ping struct {
	Counter_cycles uint64 `json:"counter_cycles,string"` // the node's counter now; 0: not read
}

// Pong answers a Ping.
type Pong struct{}

// Leave says that a client leaves. Nobody answers it.
type Leave struct {
	Why string `json:"why"`
}

// Done answers a request that needs no other answer.
type Done struct{}

// LoadRequest asks a node to measure its load for Over_ns. The answer is a Load.
type LoadRequest struct {
	Over_ns int64 `json:"over_ns"`
}

// Load is a node's load during Over_ns. It leaves out the load that the node's own probes and its
// messages to the server cause, as far as the node can measure that load.
type Load struct {
	Over_ns       int64    `json:"over_ns"`
	Busy_ppm      int64    `json:"busy_ppm"` // busy part of the time of all cores; −1: unknown
	ReceivedBytes uint64   `json:"received_bytes,string"`
	SentBytes     uint64   `json:"sent_bytes,string"`
	Unknown       []string `json:"unknown,omitempty"` // what could not be measured, and why
}

// Target is a node that another node shall probe.
type Target struct {
	Peer      string `json:"peer"`
	PeerEpoch string `json:"peer_epoch"` // epoch with which the peer registered; Trains repeats it
	Address   string `json:"address"`
	Key       []byte `json:"key,omitempty"` // the encoded minrtt.Key for these probes

	// The peer registered with these values.
	Nominal_hz       uint64 `json:"nominal_hz,string"`
	Quantum_cycles   uint64 `json:"quantum_cycles,string"`
	CoreSlack_cycles uint64 `json:"core_slack_cycles,string"`
}

// Manner says how trains are run.
type Manner struct {
	Exchanges  int   `json:"exchanges"`         // exchanges of each train, after its warm-up
	Timeout_ns int64 `json:"timeout_ns"`        // how long to wait for one answer
	Attempts   int   `json:"attempts"`          // how many missing answers in a row end a train
	UserStamps bool  `json:"user_stamps"`       // do not use the kernel's stamps
	Spin_ns    int64 `json:"spin_ns,omitempty"` // how long to poll for an answer before sleeping
}

// Probe orders a node to run a batch of trains with one other node, the Target. The node that got
// the order answers it with one Trains when the batch is done or given up. Limit_ns is the time for
// the whole batch.
type Probe struct {
	Target
	Manner
	Trains   int   `json:"trains"`
	Gap_ns   int64 `json:"gap_ns"` // from the end of a train to the start of the next train
	Limit_ns int64 `json:"limit_ns"`
}

// Probing orders a node to run trains with many other nodes in turn, one train every Period_ns. The
// order is valid until the next Probing. A Probing without targets and neighbours ends the trains.
// The node answers the order with a Done. Afterwards it sends, from time to time, Trains with
// request 0.
type Probing struct {
	Manner
	Targets    []Target `json:"targets"`
	Neighbours bool     `json:"neighbours,omitempty"` // probe the graph's outgoing neighbours, too
	Period_ns  int64    `json:"period_ns"`
}

// Graph makes a node join the graph of a large fleet, or tells it newer keys and contacts. The node
// answers with a Done. The node stays in the graph while the server is away.
type Graph struct {
	Degree    int      `json:"degree"` // how many nodes each node probes, and how many probe it
	Issuers   [][]byte `json:"issuers"`
	Signature []byte   `json:"signature"` // of Register.Graph, by one of the Issuers
	Contacts  []string `json:"contacts,omitempty"`
}

// Neighbours tells the server which nodes a node probes along the edges of the graph, to which
// addresses its machine has connections, and which nodes broke the rules of the graph lately. The
// server does not answer this message.
type Neighbours struct {
	Names     []string `json:"names"`
	Connected []string `json:"connected,omitempty"`
	Blamed    []Blamed `json:"blamed,omitempty"`
}

// Blamed says how often a node broke the rules of the graph lately. A node counts up to MaxBlamed.
type Blamed struct {
	Name  string `json:"name"`
	Times int    `json:"times"`
}

// Trains reports trains that a node ran with a peer. The server answers with an Ack that contains
// the report's number. Until the Ack arrives, the node keeps the report, if its memory allows.
type Trains struct {
	Report    uint64  `json:"report,string"` // its number, from 1 in each process; 0: needs no Ack
	Peer      string  `json:"peer"`
	PeerEpoch string  `json:"peer_epoch"`
	Epoch     string  `json:"epoch"` // epoch of the reporting node
	Lost      uint64  `json:"lost,string"`
	Dropped   uint64  `json:"dropped,string"` // unacknowledged reports that the node dropped
	Error     string  `json:"error,omitempty"`
	Trains    []Train `json:"-"`

	// Meetings are moments that both nodes saw on a clock that they share. A server that is older
	// than this field skips them, and its bounds are wider.
	Meetings []Meeting `json:"meetings,omitempty"`

	// SharedClock says how the shared clock contradicts the packets, or is "". After a
	// contradiction, the node no longer uses the clock with this peer.
	SharedClock string `json:"shared_clock,omitempty"`
}

// Meeting is a moment that two nodes saw on a clock that they share, while a train was under way.
// For each of the two nodes, the Meeting has an interval that contained the node's counter at that
// moment.
type Meeting struct {
	Train  int    `json:"train"` // index of the train in Trains
	OwnLo  uint64 `json:"own_lo_cycles,string"`
	OwnHi  uint64 `json:"own_hi_cycles,string"`
	PeerLo uint64 `json:"peer_lo_cycles,string"`
	PeerHi uint64 `json:"peer_hi_cycles,string"`
}

// Ack says that the server has stored all reports up to and including a number.
type Ack struct {
	Report uint64 `json:"report,string"`
}

// Run tells a node to open or close a run. The answer is a RunState.
type Run struct {
	Name  string `json:"name"`
	Close bool   `json:"close,omitempty"`

	// Collectors are the nodes that may fetch the logs of other nodes when the run is closed.
	Collectors []string `json:"collectors,omitempty"`
}

// RunState says whether a node has opened or closed a run.
type RunState struct {
	Name     string   `json:"name"`
	Closed   bool     `json:"closed"`
	Channels int      `json:"channels"`
	Missing  []string `json:"missing,omitempty"` // what the run will lack, and why

	Frequency *Frequency `json:"frequency,omitempty"` // measured over the run, when it is closed
}

// Table gives a node the handler table. The answer is a TableState.
type Table struct {
	Generation uint64 `json:"generation,string"`
	Text       []byte `json:"-"`
}

// TableState says which table a node uses.
type TableState struct {
	Generation uint64 `json:"generation,string"`
	Channels   int    `json:"channels"` // number of channels to which the node applied the table
	Error      string `json:"error,omitempty"`

	// Matched has, for each rule of the table, the number of the node's open channels to which the
	// rule applies. It is empty if the node's software is older than this field.
	Matched []int `json:"matched,omitempty"`
}

// ListFiles asks a node for a list of its files of a run. The answer is a Files.
type ListFiles struct {
	Run string `json:"run"`
}

// Files is the list of a node's files of a run.
type Files struct {
	Run   string `json:"run"`
	Files []File `json:"files"`
	More  bool   `json:"more,omitempty"` // the run is still open: files may grow, or be added
}

// File describes one file of a run.
type File struct {
	Path  string `json:"path"` // inside the run, with slashes; no "..", no leading slash
	Bytes int64  `json:"bytes"`
}

// ReadFile asks for a part of a file. The answer is a Chunk. The server asks a node for files of
// the run under way. An admin's command asks the server for files of a run that the server keeps.
type ReadFile struct {
	Run    string `json:"run"`
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"` // the largest length of the answer's Data; at most MaxChunkBytes
}

// Chunk is a part of a file. It may be shorter than requested. It is empty only at the end of the
// file.
type Chunk struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Size   int64  `json:"size"`   // present length of the whole file
	CRC32C uint32 `json:"crc32c"` // checksum of Data; Decode has checked it
	Data   []byte `json:"-"`
}

// Snapshot asks a node to dump its flight recorders. The node answers with a SnapshotState. When a
// program on a node asks for a dump, the node also sends a Snapshot to the server. The server does
// not answer this message, but forwards it to all other nodes.
type Snapshot struct {
	Channels string `json:"channels"` // a pattern of channel names; "": all channels
	Reason   string `json:"reason"`
}

// SnapshotState describes what a node dumped.
type SnapshotState struct {
	Channels int    `json:"channels"`
	Records  uint64 `json:"records,string"`
	Error    string `json:"error,omitempty"`
}

// Ask is a command's question to the server, in JSON. The answer is an Answer or a Refusal.
type Ask struct {
	What     string          `json:"what"`
	Argument json.RawMessage `json:"argument,omitempty"`
}

// Answer is the answer to an Ask. Its Result is compressed, because answers about a large fleet
// have megabytes of JSON.
type Answer struct {
	Result json.RawMessage `json:"-"`
}

// ProbeSecrets gives a node a list of secrets. From now on, the node accepts probe keys that are
// derived from these secrets. The answer is a Done.
type ProbeSecrets struct {
	Secrets []ProbeSecret `json:"secrets"`
}

// ProbeSecret is an encoded minrtt.Secret.
type ProbeSecret struct {
	Number uint64 `json:"number,string"`
	Bytes  []byte `json:"bytes"`
}

func (*Hello) Kind() Kind         { return KindHello }
func (*Challenge) Kind() Kind     { return KindChallenge }
func (*Register) Kind() Kind      { return KindRegister }
func (*Welcome) Kind() Kind       { return KindWelcome }
func (*Refusal) Kind() Kind       { return KindRefusal }
func (*Ping) Kind() Kind          { return KindPing }
func (*Pong) Kind() Kind          { return KindPong }
func (*Leave) Kind() Kind         { return KindLeave }
func (*Done) Kind() Kind          { return KindDone }
func (*LoadRequest) Kind() Kind   { return KindLoadRequest }
func (*Load) Kind() Kind          { return KindLoad }
func (*Probe) Kind() Kind         { return KindProbe }
func (*Trains) Kind() Kind        { return KindTrains }
func (*Ack) Kind() Kind           { return KindAck }
func (*Probing) Kind() Kind       { return KindProbing }
func (*Graph) Kind() Kind         { return KindGraph }
func (*Neighbours) Kind() Kind    { return KindNeighbours }
func (*Run) Kind() Kind           { return KindRun }
func (*RunState) Kind() Kind      { return KindRunState }
func (*Table) Kind() Kind         { return KindTable }
func (*TableState) Kind() Kind    { return KindTableState }
func (*ListFiles) Kind() Kind     { return KindListFiles }
func (*Files) Kind() Kind         { return KindFiles }
func (*ReadFile) Kind() Kind      { return KindReadFile }
func (*Chunk) Kind() Kind         { return KindChunk }
func (*Snapshot) Kind() Kind      { return KindSnapshot }
func (*SnapshotState) Kind() Kind { return KindSnapshotState }
func (*Ask) Kind() Kind           { return KindAsk }
func (*Answer) Kind() Kind        { return KindAnswer }
func (*ProbeSecrets) Kind() Kind  { return KindProbeSecrets }
