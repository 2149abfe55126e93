package control

import "encoding/json"

// Message is a pointer to one of the structs below. FORMAT.md lists who sends which message, and
// when.
type Message interface {
	Kind() Kind
	check() error // returns an error about content that Go's types do not exclude
}

// bulky is a message with a third frame.
type bulky interface {
	Message
	bulk() []byte
	setBulk([]byte) error
}

// Capabilities of a node, in Register.Capabilities.
const (
	CanProbe    = "probe"    // probes others and answers probes
	CanRun      = "run"      // opens and closes runs
	CanTable    = "table"    // applies a handler table
	CanFiles    = "files"    // provides the log segments of a run
	CanSnapshot = "snapshot" // dumps its flight recorders
)

// Hello opens a conversation. A client sends it to the server, which answers with a Challenge or a
// Refusal.
type Hello struct {
	Name     string `json:"name"`     // of the node
	Software string `json:"software"` // of the client, for people
}

// Challenge contains a nonce that the next Register on this connection has to repeat.
type Challenge struct {
	Nonce string `json:"nonce"`
}

// Register is a node's description of itself. The server answers with a Welcome or a Refusal.
type Register struct {
	Nonce            string          `json:"nonce"`
	Name             string          `json:"name"`
	Instance         string          `json:"instance"` // of the process: random
	Epoch            string          `json:"epoch"`
	Nominal_hz       uint64          `json:"nominal_hz,string"`
	Quantum_cycles   uint64          `json:"quantum_cycles,string"`
	CoreSlack_cycles uint64          `json:"core_slack_cycles,string"`
	Number           int             `json:"number,omitempty"` // in the node's tuple ids
	Virtual          bool            `json:"virtual,omitempty"`
	Machine          string          `json:"machine"` // nodes on one machine share Cores
	Cores            int             `json:"cores"`
	Capabilities     []string        `json:"capabilities"`
	ProbeAddress     string          `json:"probe_address,omitempty"` // address:port
	Software         string          `json:"software"`
	Facts            json.RawMessage `json:"facts,omitempty"` // of its host, for people

	// Frequency is the measured frequency of the node's counter. It serves to display results in
	// seconds.
	Frequency *Frequency `json:"frequency,omitempty"`

	// OpenRun is the run for which the node keeps logs. The run may have ended meanwhile.
	OpenRun string `json:"open_run,omitempty"`
}

// Frequency is the interval that contains the mean rate of a counter, measured by a clock.
type Frequency struct {
	Lo_millihz uint64 `json:"lo_millihz,string"`
	Hi_millihz uint64 `json:"hi_millihz,string"`
	Clock      string `json:"clock"`
}

// Welcome confirms a registration.
type Welcome struct {
	// Server identifies the server's process. A different process no longer has the old one's
	// requests.
	Server string `json:"server"`

	Heartbeat_ns int64  `json:"heartbeat_ns"`
	Dead_ns      int64  `json:"dead_ns"` // either end treats the other as gone after this silence
	Generation   uint64 `json:"generation,string"`
}

// Refusal reports that a request was not carried out, and why. Both ends send it.
type Refusal struct {
	Code Code   `json:"code"`
	Text string `json:"text"`
}

// Refuse returns a Refusal. It shortens a text that is too long.
func Refuse(code Code, text string) *Refusal { return &Refusal{code, Cut(text)} }

// Ping is a client's sign of life, every Heartbeat_ns. The server answers with a Pong.
type Ping struct {
	Counter_cycles uint64 `json:"counter_cycles,string"` // the node's counter now; 0: none
}

// Pong answers a Ping.
type Pong struct{}

// Leave is a client's farewell. It is not answered.
type Leave struct {
	Why string `json:"why"`
}

// Done is the answer to a request that has no other answer.
type Done struct{}

// LoadRequest asks a node how busy it is during the next Over_ns. The answer is a Load.
type LoadRequest struct {
	Over_ns int64 `json:"over_ns"`
}

// Load is a node's load during Over_ns. The node's own probes and control messages are excluded as
// far as possible.
type Load struct {
	Over_ns       int64    `json:"over_ns"`
	Busy_ppm      int64    `json:"busy_ppm"` // busy part of all cores' time; −1: unknown
	ReceivedBytes uint64   `json:"received_bytes,string"`
	SentBytes     uint64   `json:"sent_bytes,string"`
	Unknown       []string `json:"unknown,omitempty"` // what could not be read, and why
}

// Target is a node to probe.
type Target struct {
	Peer      string `json:"peer"`
	PeerEpoch string `json:"peer_epoch"` // as registered; Trains repeats it
	Address   string `json:"address"`
	Key       []byte `json:"key,omitempty"` // minrtt's

	// These are what the peer registered.
	Nominal_hz       uint64 `json:"nominal_hz,string"`
	Quantum_cycles   uint64 `json:"quantum_cycles,string"`
	CoreSlack_cycles uint64 `json:"core_slack_cycles,string"`
}

// Manner defines how trains are run.
type Manner struct {
	Exchanges  int   `json:"exchanges"`         // of each train, after its warm-up
	Timeout_ns int64 `json:"timeout_ns"`        // for one answer
	Attempts   int   `json:"attempts"`          // answers in a row that may be missing
	UserStamps bool  `json:"user_stamps"`       // do not use the kernel's stamps
	Spin_ns    int64 `json:"spin_ns,omitempty"` // how long to poll for an answer before sleeping
}

// Probe orders a batch of trains to one node. The answer is one Trains with the request's number,
// once the batch is done or given up. Limit_ns is the time for the whole batch.
type Probe struct {
	Target
	Manner
	Trains   int   `json:"trains"`
	Gap_ns   int64 `json:"gap_ns"` // from the end of a train to the start of the next
	Limit_ns int64 `json:"limit_ns"`
}

// Probing orders trains to many nodes in turn, one train every Period_ns, until the next Probing. A
// Probing without targets ends these trains. The answer is a Done; after it, Trains with request 0
// follow from time to time.
type Probing struct {
	Manner
	Targets   []Target `json:"targets"`
	Period_ns int64    `json:"period_ns"`
}

// Trains reports trains that a node ran with a peer. The server answers with an Ack of the report's
// number. Until then the node keeps the report, as far as its memory allows.
type Trains struct {
	Report    uint64  `json:"report,string"` // counted from 1 in each process; 0: needs no Ack
	Peer      string  `json:"peer"`
	PeerEpoch string  `json:"peer_epoch"`
	Epoch     string  `json:"epoch"` // of the reporting node
	Lost      uint64  `json:"lost,string"`
	Dropped   uint64  `json:"dropped,string"` // reports without an Ack that the node dropped
	Error     string  `json:"error,omitempty"`
	Trains    []Train `json:"-"`
}

// Ack confirms that the server has stored all reports up to a number.
type Ack struct {
	Report uint64 `json:"report,string"`
}

// Run opens or closes a run. The answer is a RunState.
type Run struct {
	Name  string `json:"name"`
	Close bool   `json:"close,omitempty"`
}

// RunState describes a node's progress with a run.
type RunState struct {
	Name     string   `json:"name"`
	Closed   bool     `json:"closed"`
	Channels int      `json:"channels"`
	Missing  []string `json:"missing,omitempty"` // what will be missing, and why

	Frequency *Frequency `json:"frequency,omitempty"` // over the run, once the run is closed
}

// Table is the handler table. The answer is a TableState.
type Table struct {
	Generation uint64 `json:"generation,string"`
	Text       []byte `json:"-"`
}

// TableState names the table that a node uses.
type TableState struct {
	Generation uint64 `json:"generation,string"`
	Channels   int    `json:"channels"` // channels to which the table was applied
	Error      string `json:"error,omitempty"`
}

// ListFiles asks for the files of a run. The answer is a Files.
type ListFiles struct {
	Run string `json:"run"`
}

// Files are the files of a run on one node.
type Files struct {
	Run   string `json:"run"`
	Files []File `json:"files"`
	More  bool   `json:"more,omitempty"` // the run is still open: files may grow, or appear
}

// File is a file of a run.
type File struct {
	Path  string `json:"path"` // inside the run, with slashes: no "..", no leading slash
	Bytes int64  `json:"bytes"`
}

// ReadFile asks for a part of a file. The answer is a Chunk.
type ReadFile struct {
	Run    string `json:"run"`
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"` // the most to return; no more than MaxChunkBytes
}

// Chunk is a part of a file. It may be shorter than requested, but is empty only at the end.
type Chunk struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Size   int64  `json:"size"`   // of the whole file at this moment
	CRC32C uint32 `json:"crc32c"` // of Data; Decode has checked it
	Data   []byte `json:"-"`
}

// Snapshot asks a node to dump its flight recorders. The answer is a SnapshotState. A node itself
// sends a Snapshot when a program on it asks for one. The server forwards it to all other nodes,
// and does not answer it.
type Snapshot struct {
	Channels string `json:"channels"` // pattern that matches their names; "": all
	Reason   string `json:"reason"`
}

// SnapshotState describes what was dumped.
type SnapshotState struct {
	Channels int    `json:"channels"`
	Records  uint64 `json:"records,string"`
	Error    string `json:"error,omitempty"`
}

// Ask is a command's question to the server, as JSON. The answer is an Answer or a Refusal.
type Ask struct {
	What     string          `json:"what"`
	Argument json.RawMessage `json:"argument,omitempty"`
}

// Answer answers an Ask. It is compressed, because a large fleet produces megabytes of JSON.
type Answer struct {
	Result json.RawMessage `json:"-"`
}

// ProbeSecrets contains the secrets of the probe keys that a node accepts from now on. The answer
// is a Done.
type ProbeSecrets struct {
	Secrets []ProbeSecret `json:"secrets"`
}

// ProbeSecret is minrtt's Secret.
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
