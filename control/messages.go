package control

import "encoding/json"

// Message is one of the structs below, by pointer. FORMAT.md says who sends which, and when.
type Message interface {
	Kind() Kind
	check() error // what a decoded message must satisfy beyond its types
}

// bulky is a message with a third frame.
type bulky interface {
	Message
	bulk() []byte
	setBulk([]byte) error
}

// What a node can do, in Register.Capabilities.
const (
	CanProbe    = "probe"    // probes others and answers probes
	CanRun      = "run"      // opens and closes runs
	CanTable    = "table"    // applies a handler table
	CanFiles    = "files"    // hands out the log segments of a run
	CanSnapshot = "snapshot" // dumps its flight recorders
)

// Hello opens a conversation. Client to server, which answers with a Challenge or a Refusal.
type Hello struct {
	Name     string `json:"name"`     // of the node
	Software string `json:"software"` // of the client, for people
}

// Challenge is a nonce that the next Register on this connection has to repeat.
type Challenge struct {
	Nonce string `json:"nonce"`
}

// Register is what a node says about itself. The server answers with a Welcome or a Refusal.
type Register struct {
	Nonce           string          `json:"nonce"`
	Name            string          `json:"name"`
	Instance        string          `json:"instance"` // of the process: chosen at random when it starts
	Epoch           string          `json:"epoch"`
	NominalHz       uint64          `json:"nominal_hz,string"`
	QuantumCycles   uint64          `json:"quantum_cycles,string"`
	CoreSlackCycles uint64          `json:"core_slack_cycles,string"`
	Number          int             `json:"number,omitempty"` // in the tuple ids that the node makes
	Virtual         bool            `json:"virtual,omitempty"`
	Machine         string          `json:"machine"` // nodes that say the same share Cores
	Cores           int             `json:"cores"`
	Capabilities    []string        `json:"capabilities"`
	ProbeAddress    string          `json:"probe_address,omitempty"` // address:port where it answers probes
	Software        string          `json:"software"`
	Facts           json.RawMessage `json:"facts,omitempty"` // of its host, for people

	Frequency *Frequency `json:"frequency,omitempty"` // of its counter as measured, to show seconds by
	OpenRun   string     `json:"open_run,omitempty"`  // that it keeps logs for at this moment; it may have ended meanwhile
}

// Frequency is the interval that a counter's mean rate was in, by a clock.
type Frequency struct {
	Lo_millihz uint64 `json:"lo_millihz,string"`
	Hi_millihz uint64 `json:"hi_millihz,string"`
	Clock      string `json:"clock"`
}

// Welcome tells a node that it is registered.
type Welcome struct {
	Server       string `json:"server"` // the server's process: another one forgot what is under way
	Heartbeat_ns int64  `json:"heartbeat_ns"`
	Dead_ns      int64  `json:"dead_ns"` // either end gives the other up after so long a silence
	Generation   uint64 `json:"generation,string"`
}

// Refusal answers what is not done, and why. Either way.
type Refusal struct {
	Code Code   `json:"code"`
	Text string `json:"text"`
}

// Refuse returns a Refusal, whatever the length of its text.
func Refuse(code Code, text string) *Refusal { return &Refusal{code, Cut(text)} }

// Ping is a client's sign of life, every Heartbeat_ns. The server answers with a Pong.
type Ping struct {
	Counter_cycles uint64 `json:"counter_cycles,string"` // its node's counter now; 0: it has none
}

// Pong answers a Ping.
type Pong struct{}

// Leave is a client's farewell. It is not answered.
type Leave struct {
	Why string `json:"why"`
}

// Done answers what has no other answer.
type Done struct{}

// LoadRequest asks a node how busy it is during the next Over_ns. The answer is a Load.
type LoadRequest struct {
	Over_ns int64 `json:"over_ns"`
}

// Load is what a node did during Over_ns, its own probes and control messages left out as well as it can.
type Load struct {
	Over_ns       int64    `json:"over_ns"`
	Busy_ppm      int64    `json:"busy_ppm"` // of all its cores' time; −1: unknown
	ReceivedBytes uint64   `json:"received_bytes,string"`
	SentBytes     uint64   `json:"sent_bytes,string"`
	Unknown       []string `json:"unknown,omitempty"` // what could not be read, and why
}

// Target is a node to probe.
type Target struct {
	Peer      string `json:"peer"`
	PeerEpoch string `json:"peer_epoch"` // as the server knows it; Trains repeats it
	Address   string `json:"address"`
	Key       []byte `json:"key,omitempty"` // minrtt's

	// What the peer registered.
	NominalHz       uint64 `json:"nominal_hz,string"`
	QuantumCycles   uint64 `json:"quantum_cycles,string"`
	CoreSlackCycles uint64 `json:"core_slack_cycles,string"`
}

// Manner is how trains are run.
type Manner struct {
	Exchanges  int   `json:"exchanges"`         // of each train, after its warm-up
	Timeout_ns int64 `json:"timeout_ns"`        // for one answer
	Attempts   int   `json:"attempts"`          // how many answers in a row may stay out
	UserStamps bool  `json:"user_stamps"`       // leave the kernel's stamps off
	Spin_ns    int64 `json:"spin_ns,omitempty"` // how long to poll for an answer before sleeping
}

// Probe orders a batch of trains against one node. The answer is one Trains, with the request's number, once the batch is done or
// has been given up. Limit_ns is the time for all of it.
type Probe struct {
	Target
	Manner
	Trains   int   `json:"trains"`
	Gap_ns   int64 `json:"gap_ns"` // from one train's end to the next one's start
	Limit_ns int64 `json:"limit_ns"`
}

// Probing orders trains against many nodes in turn, one train every Period_ns, until another Probing; without targets it ends
// them. The answer is a Done, and then a Trains with request 0 now and then.
type Probing struct {
	Manner
	Targets   []Target `json:"targets"`
	Period_ns int64    `json:"period_ns"`
}

// Trains reports trains that a node ran with a peer. The server answers with an Ack of the report's number; a node keeps a report
// until then, within its memory.
type Trains struct {
	Report    uint64  `json:"report,string"` // counted from 1 in each process; 0: needs no Ack
	Peer      string  `json:"peer"`
	PeerEpoch string  `json:"peer_epoch"`
	Epoch     string  `json:"epoch"` // of the node that reports
	Lost      uint64  `json:"lost,string"`
	Dropped   uint64  `json:"dropped,string"` // reports that were never acknowledged and had to make room
	Error     string  `json:"error,omitempty"`
	Trains    []Train `json:"-"`
}

// Ack says that all reports up to a number are kept.
type Ack struct {
	Report uint64 `json:"report,string"`
}

// Run opens or closes a run. The answer is a RunState.
type Run struct {
	Name  string `json:"name"`
	Close bool   `json:"close,omitempty"`
}

// RunState is where a node is with a run.
type RunState struct {
	Name     string   `json:"name"`
	Closed   bool     `json:"closed"`
	Channels int      `json:"channels"`
	Missing  []string `json:"missing,omitempty"` // what will be missing, and why

	Frequency *Frequency `json:"frequency,omitempty"` // over the run, once that is closed
}

// Table is the handler table. The answer is a TableState.
type Table struct {
	Generation uint64 `json:"generation,string"`
	Text       []byte `json:"-"`
}

// TableState says which table a node goes by.
type TableState struct {
	Generation uint64 `json:"generation,string"`
	Channels   int    `json:"channels"` // that it reached
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
	More  bool   `json:"more,omitempty"` // the run is still open: files may grow and come
}

// File is a file of a run.
type File struct {
	Path  string `json:"path"` // with slashes, within the run: no "..", no leading slash
	Bytes int64  `json:"bytes"`
}

// ReadFile asks for a part of a file. The answer is a Chunk.
type ReadFile struct {
	Run    string `json:"run"`
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"` // at most; no more than MaxChunkBytes
}

// Chunk is a part of a file. It may be shorter than was asked for; it is empty at the end alone.
type Chunk struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Size   int64  `json:"size"`   // of the whole file at this moment
	CRC32C uint32 `json:"crc32c"` // of Data; Decode has compared it
	Data   []byte `json:"-"`
}

// Snapshot asks a node to dump its flight recorders. The answer is a SnapshotState. From a node it says that a program there has asked: the server
// sends it on to all other nodes, and answers nothing.
type Snapshot struct {
	Channels string `json:"channels"` // pattern on their names; "": all
	Reason   string `json:"reason"`
}

// SnapshotState says what was dumped.
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

// Answer answers an Ask. What is known of a large fleet is megabytes of JSON, so it travels compressed.
type Answer struct {
	Result json.RawMessage `json:"-"`
}

// ProbeSecrets says from which secrets the keys of probes are made that a node accepts from now on.
// The answer is a Done.
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
