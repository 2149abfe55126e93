package control

import "fmt"

// Kind is the number of a message's kind on the wire. ONLY APPEND: never reuse a number.
type Kind uint16

const (
	KindHello         Kind = 1
	KindChallenge     Kind = 2
	KindRegister      Kind = 3
	KindWelcome       Kind = 4
	KindRefusal       Kind = 5
	KindPing          Kind = 6
	KindPong          Kind = 7
	KindLeave         Kind = 8
	KindDone          Kind = 9
	KindLoadRequest   Kind = 10
	KindLoad          Kind = 11
	KindProbe         Kind = 12
	KindTrains        Kind = 13
	KindAck           Kind = 14
	KindProbing       Kind = 15
	KindRun           Kind = 16
	KindRunState      Kind = 17
	KindTable         Kind = 18
	KindTableState    Kind = 19
	KindListFiles     Kind = 20
	KindFiles         Kind = 21
	KindReadFile      Kind = 22
	KindChunk         Kind = 23
	KindSnapshot      Kind = 24
	KindSnapshotState Kind = 25
	KindAsk           Kind = 26
	KindAnswer        Kind = 27
	KindProbeSecrets  Kind = 28
	KindWatch         Kind = 36
	KindSample        Kind = 37
	KindGraph         Kind = 38
	KindNeighbours    Kind = 39
)

// kinds contains, for every kind, its name and a function that makes an empty message of the kind.
var kinds = map[Kind]struct {
	name string
	make func() Message
}{
	KindHello:         {"hello", func() Message { return new(Hello) }},
	KindChallenge:     {"challenge", func() Message { return new(Challenge) }},
	KindRegister:      {"register", func() Message { return new(Register) }},
	KindWelcome:       {"welcome", func() Message { return new(Welcome) }},
	KindRefusal:       {"refusal", func() Message { return new(Refusal) }},
	KindPing:          {"ping", func() Message { return new(Ping) }},
	KindPong:          {"pong", func() Message { return new(Pong) }},
	KindLeave:         {"leave", func() Message { return new(Leave) }},
	KindDone:          {"done", func() Message { return new(Done) }},
	KindLoadRequest:   {"load request", func() Message { return new(LoadRequest) }},
	KindLoad:          {"load", func() Message { return new(Load) }},
	KindProbe:         {"probe", func() Message { return new(Probe) }},
	KindTrains:        {"trains", func() Message { return new(Trains) }},
	KindAck:           {"ack", func() Message { return new(Ack) }},
	KindProbing:       {"probing", func() Message { return new(Probing) }},
	KindRun:           {"run", func() Message { return new(Run) }},
	KindRunState:      {"run state", func() Message { return new(RunState) }},
	KindTable:         {"table", func() Message { return new(Table) }},
	KindTableState:    {"table state", func() Message { return new(TableState) }},
	KindListFiles:     {"list files", func() Message { return new(ListFiles) }},
	KindFiles:         {"files", func() Message { return new(Files) }},
	KindReadFile:      {"read file", func() Message { return new(ReadFile) }},
	KindChunk:         {"chunk", func() Message { return new(Chunk) }},
	KindSnapshot:      {"snapshot", func() Message { return new(Snapshot) }},
	KindSnapshotState: {"snapshot state", func() Message { return new(SnapshotState) }},
	KindAsk:           {"ask", func() Message { return new(Ask) }},
	KindAnswer:        {"answer", func() Message { return new(Answer) }},
	KindProbeSecrets:  {"probe secrets", func() Message { return new(ProbeSecrets) }},
	KindWatch:         {"watch", func() Message { return new(Watch) }},
	KindSample:        {"sample", func() Message { return new(Sample) }},
	KindGraph:         {"graph", func() Message { return new(Graph) }},
	KindNeighbours:    {"neighbours", func() Message { return new(Neighbours) }},
}

func (k Kind) String() string {
	if known, ok := kinds[k]; ok {
		return known.name
	}
	return fmt.Sprintf("kind %d", uint16(k))
}

// Code is the number of the reason for a refusal. ONLY APPEND: never reuse a number.
type Code uint16

const (
	Malformed     Code = 1  // not a message, or a message with invalid content
	WrongVersion  Code = 2  // the versions of the two ends differ too much
	UnknownKind   Code = 3  // the receiver does not know or does not accept this kind
	TooLarge      Code = 4  // longer than this receiver accepts
	NotRegistered Code = 5  // the peer is not, or no longer, registered: it must register
	Replayed      Code = 6  // the registration answers no open challenge of its connection
	NameTaken     Code = 7  // another live process uses the name: wait, or use another name
	NotAllowed    Code = 8  // the key's owner may not do this
	NotNow        Code = 9  // the request is valid, but cannot be carried out now
	NotFound      Code = 10 // the requested thing does not exist
	Failed        Code = 11 // the receiver tried and failed
)

var codes = map[Code]string{
	Malformed: "malformed", WrongVersion: "wrong version", UnknownKind: "unknown kind",
	TooLarge: "too large", NotRegistered: "not registered", Replayed: "replayed",
	NameTaken: "name taken", NotAllowed: "not allowed", NotNow: "not now", NotFound: "not found",
	Failed: "did not work",
}

func (c Code) String() string {
	if name, ok := codes[c]; ok {
		return name
	}
	return fmt.Sprintf("code %d", uint16(c))
}
