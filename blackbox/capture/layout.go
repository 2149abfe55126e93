package capture

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// These are offsets in the state that the programs keep for each socket, in the kernel. The kernel
// frees the state with the socket.
const (
	stateDescribed = 0  // the round in which the description of the socket was handed over
	stateReceived  = 8  // position after the last bytes that were received; 0: not known
	stateSends     = 16 // sending calls that have not returned; a thread uses entry id mod 4
	stateBytes     = stateSends + sends*sendBytes

	sends     = 4
	sendBytes = 24

	sendThread   = 0  // the thread that is in the call
	sendBegan    = 8  // CLOCK_MONOTONIC in ns when the call began; 0: no call
	sendPosition = 16 // position of the call's first byte
)

// These are offsets in a sighting, which is what the programs of hookSent and hookReceived hand
// over about a message.
const (
	sightingCookie   = 0
	sightingBegan    = 8
	sightingEnded    = 16
	sightingPosition = 24
	sightingLength   = 32
	sightingWhat     = 36
	sightingThread   = 40
	sightingName     = 48 // the thread's name
	sightingBytes    = 64
)

// These are offsets in a description, which is what these programs hand over about a socket before
// its first message.
const (
	descriptionCookie     = 0
	descriptionLocal6     = 8
	descriptionRemote6    = 24
	descriptionLocal4     = 40
	descriptionRemote4    = 44
	descriptionLocalPort  = 48
	descriptionRemotePort = 50 // in network byte order
	descriptionFamily     = 52
	descriptionProtocol   = 54
	descriptionNamespace  = 56
	descriptionPeer       = 64 // cookie of a UNIX socket's peer; 0: it has none yet
	descriptionSends      = 72 // of TCP: the sequence number before the stream that is sent
	descriptionReceives   = 76 // and that is received
	descriptionBytes      = 80
)

// These are the maps that the programs use.
const (
	mapStates    = "states"
	mapSightings = "sightings"
	mapLost      = "lost"  // number of messages that could not be handed over
	mapRound     = "round" // in each round, every socket is described before its next message
)

// collection returns all programs and maps. early is false if the kernel lacks hookBegin.
func collection(f *fields, own uint32, buffer uint32, early bool) *ebpf.CollectionSpec {
	number := &btf.Int{Name: "number", Size: 4, Encoding: btf.Signed}
	word := &btf.Int{Name: "word", Size: 8}
	program := func(hook string, i asm.Instructions) *ebpf.ProgramSpec {
		return &ebpf.ProgramSpec{
			Name: hook, Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: hook,
			Instructions: i, License: licence,
		}
	}
	c := &ebpf.CollectionSpec{
		Maps: map[string]*ebpf.MapSpec{
			mapStates: {
				Name: mapStates, Type: ebpf.SkStorage, KeySize: 4, ValueSize: stateBytes,
				Flags: unix.BPF_F_NO_PREALLOC, Key: number,
				Value: &btf.Array{Index: number, Type: word, Nelems: stateBytes / 8},
			},
			mapSightings: {Name: mapSightings, Type: ebpf.RingBuf, MaxEntries: buffer},
			mapLost: {
				Name: mapLost, Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1,
			},
			mapRound: {
				Name: mapRound, Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1,
				Contents: []ebpf.MapKV{{Key: uint32(0), Value: uint64(1)}},
			},
		},
		Programs: map[string]*ebpf.ProgramSpec{
			hookSent:     program(hookSent, sent(f, own)),
			hookReceived: program(hookReceived, received(f, own)),
		},
	}
	if early {
		c.Programs[hookBegin] = program(hookBegin, begin(f))
	}
	return c
}
