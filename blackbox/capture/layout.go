package capture

import (
	"math/bits"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// These are the maps that the programs and the capture share.
//
// A sighting says that a message was sent or received. There are many, so the programs put them
// into rings that the capture maps into its memory: one ring for each processor and direction.
// Descriptions of sockets and names of threads are rare, and go into one ring buffer of the kernel.
// A description or name always comes before the sightings that need it.
const (
	mapStates   = "states"  // by socket, of the kernel: the round of its last description
	mapRound    = "round"   // in each round, every socket is described before its next message
	mapSockets  = "sockets" // by the low bits of the cookie: the last socket that was described
	mapThreads  = "threads" // by the low bits of the number: the last thread that was named
	mapHeads    = "heads"   // heads of the rings
	mapRings    = "rings"   // the rings
	mapRare     = "rare"    // descriptions and names
	mapLost     = "lost"    // number of messages that could not be reported
	mapUsers    = "users"   // by the number of a process: 1 if it has used a socket
	rareBytes   = 8 << 20   // bytes of mapRare
	stateBytes  = 8         // bytes of a socket's state in mapStates
	socketSlots = 1 << 16   // entries of mapSockets
	threadSlots = 1 << 16   // entries of mapThreads
	sentRing    = 0         // the first ring of each processor
	receiveRing = 1         // its second ring
	wokeRing    = 2         // its third ring, for wake-ups
	mostRings   = 64 << 20  // bytes of all rings
	mostRing    = 65536     // sightings in a ring
	leastRing   = 512       // sightings in a ring
	smallMap    = 4 << 20   // a map may not be larger on some kernels
	mostRare    = 8 << 20   // bytes of mapRare: about 80,000 descriptions of sockets
	leastRare   = 2 << 20
)

// An entry of mapSockets begins with a word that has the cookie in bits 2 to 63, and one of these
// kinds in bits 0 and 1. So the programs need only one load to see whether a socket was described,
// and of which kind it is.
const (
	kindBits     = 2
	kindTCP      = 1
	kindOther    = 2
	kindUnwanted = 3
)

// If arrivals are captured, an entry of mapSockets also has the last two arrivals, the newer one
// first. The first constants are offsets in an arrival. Several processors may write to the entry
// at once, and mix two arrivals. The field check shows that: it combines the other two fields with
// the first word of the entry.
const (
	arrivalStamp = 0 // CLOCK_MONOTONIC in ns
	arrivalRange = 8 // sequence number after the arrived bytes; in the upper half: before them
	arrivalCheck = 16
	arrivalBytes = 24

	socketArrivals = 8  // offset of the arrivals
	socketShort    = 8  // bytes of an entry without arrivals
	socketLong     = 64 // bytes of an entry with arrivals
)

// These are offsets in an entry of mapThreads.
const (
	threadNamed    = 0  // the last thread whose name was reported
	threadSocket   = 8  // the socket of the call in which the thread sends over TCP
	threadBegan    = 16 // CLOCK_MONOTONIC in ns when this call began; 0: no call; 1: not known
	threadPosition = 24 // sequence number of the call's first byte
	threadCheck    = 32 // combines the two fields above with the thread: others may write them
	threadTaken    = 40 // the thread that took the entry from another during a call, or 0
	threadSkipped  = 48 // the last thread that the filter excluded
	threadBytes    = 64
)

// These are offsets in the head of a ring. The programs write the first cache line, and the capture
// writes the second.
const (
	headWritten = 0  // number of sightings that were ever put into the ring
	headLost    = 8  // number of messages for which the ring had no room
	headSeen    = 16 // headRead, as the programs saw it last
	headRead    = 64 // number of sightings that the capture has taken
	headBytes   = 128
)

// These are offsets in a sighting.
const (
	sightingStamp    = 0  // CLOCK_MONOTONIC in ns: see the programs
	sightingCookie   = 8  // of the socket
	sightingSequence = 16 // of TCP: sequence number of the first byte, or of that after the last;
	// of a datagram: its checksum
	sightingThread = 20
	sightingLength = 24
	sightingWhat   = 28
	sightingBytes  = 32
)

// These are offsets in a description: the report about a socket before its first message.
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
	descriptionType       = 60 // of the socket
	descriptionStart      = 62 // of TCP: see storeStart
	descriptionPeer       = 64 // cookie of a UNIX socket's peer; 0: it has none yet
	descriptionSends      = 72 // of TCP: a sequence number of the stream that is sent; of a UNIX
	// socket: the process that made its peer
	descriptionReceives = 76 // a sequence number of the stream that is received
	descriptionSent     = 80 // number of bytes before descriptionSends
	descriptionReceived = 88 // number of bytes before descriptionReceives
	descriptionBytes    = 96
)

// These are offsets in a name: the report about a thread before its first message, and after its
// name has changed.
const (
	nameThread  = 0
	nameOwn     = 8
	nameProgram = 24 // the name of the process
	nameGroups  = 40 // the name of the thread's cgroup, and those of the groups above it
	nameBytes   = nameGroups + groupLevels*groupBytes

	groupLevels = 4
	groupBytes  = 96
)

// These are offsets in a happening: the report about something that is no message.
const (
	happeningStamp    = 0  // CLOCK_MONOTONIC in ns
	happeningCookie   = 8  // of the socket, or 0
	happeningWhat     = 16 // a blackbox.What
	happeningThread   = 20 // or 0
	happeningOther    = 24 // Forked: the new thread
	happeningProcess  = 28 // Forked: its process
	happeningBusy     = 24 // Busy: for how many ns, in the place of the two fields above
	happeningSequence = 32 // Retransmitted: sequence number of the first byte; Busy: after the last
	happeningLength   = 36 // Retransmitted: number of bytes
	happeningBytes    = 40
)

// sizes are the sizes of the maps. Each is a power of two.
type sizes struct {
	processors  int
	rings       int // rings of each processor
	sightings   int // in each ring
	slots       int // entries of mapSockets, and of mapThreads
	socketBytes int // bytes of an entry of mapSockets
	rareBytes   int // bytes of mapRare
}

// manySlots is enough for the sockets and threads that are in use at the same time. If two of them
// have the same slot, messages cost more, and the beginning of a call may be missed.
const manySlots = 1 << 16

// ringSizes returns sizes for this machine. It makes the rings smaller until their bytes are within
// the given limit, or until each has only leastRing sightings.
func ringSizes(processors, most int, also Also) sizes {
	s := sizes{1 << bits.Len(uint(processors-1)), 2, mostRing, manySlots, socketShort,
		min(mostRare, max(most, leastRare))}
	if also.Threads {
		s.rings = 4
	}
	if also.Arrivals {
		s.socketBytes = socketLong
	}
	for s.sightings > leastRing && s.ringsBytes() > most {
		s.sightings /= 2
	}
	return s
}

func (s sizes) headsBytes() int { return s.processors * s.rings * headBytes }
func (s sizes) ringsBytes() int { return s.processors * s.rings * s.sightings * sightingBytes }

// sharedMap returns the specification of a map that the capture maps into its memory.
func sharedMap(name string, bytes int) *ebpf.MapSpec {
	return &ebpf.MapSpec{
		Name: name, Type: ebpf.Array, KeySize: 4, MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE,
		ValueSize: uint32((bytes + os.Getpagesize() - 1) / os.Getpagesize() * os.Getpagesize()),
	}
}

// storageSpec returns the specification of a map that the kernel keeps at sockets or threads.
func storageSpec(name string, of ebpf.MapType, bytes uint32) *ebpf.MapSpec {
	number := &btf.Int{Name: "number", Size: 4, Encoding: btf.Signed}
	return &ebpf.MapSpec{
		Name: name, Type: of, KeySize: 4, ValueSize: bytes, Flags: unix.BPF_F_NO_PREALLOC,
		Key: number, Value: &btf.Array{Index: number, Type: &btf.Int{Name: "word", Size: 8},
			Nelems: bytes / 8},
	}
}

// userSlots is the number of entries of mapUsers: more than any process's number.
const userSlots = 1 << 22

// collectionOf returns everything to load into the kernel: all maps, and the eBPF programs of the
// given hooks. For each program, a copy of the writer w generates the code.
func collectionOf(w writer, hooks []string) *ebpf.CollectionSpec {
	s := w.s
	program := func(hook string, i asm.Instructions) *ebpf.ProgramSpec {
		return &ebpf.ProgramSpec{
			Name: hook, Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: hook,
			Instructions: i, License: licence,
		}
	}
	c := &ebpf.CollectionSpec{
		Maps: map[string]*ebpf.MapSpec{
			mapStates: storageSpec(mapStates, ebpf.SkStorage, stateBytes),
			mapRare:   {Name: mapRare, Type: ebpf.RingBuf, MaxEntries: uint32(s.rareBytes)},
			mapLost:   sharedMap(mapLost, 8),
			mapRound: {
				Name: mapRound, Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1,
				Contents: []ebpf.MapKV{{Key: uint32(0), Value: uint64(1)}},
			},
			mapSockets: sharedMap(mapSockets, s.slots*s.socketBytes),
			mapThreads: sharedMap(mapThreads, s.slots*threadBytes),
			mapHeads:   sharedMap(mapHeads, s.headsBytes()),
			mapRings:   sharedMap(mapRings, s.ringsBytes()),
		},
		Programs: map[string]*ebpf.ProgramSpec{},
	}
	if w.also.Calls {
		c.Maps[mapCalls] = storageSpec(mapCalls, ebpf.TaskStorage, callsBytes)
	}
	if w.direct {
		c.Maps[mapQueues] = &ebpf.MapSpec{
			Name: mapQueues, Type: ebpf.Array, KeySize: 4, MaxEntries: 1,
			ValueSize: uint32(8 * s.processors),
		}
	}
	if w.also.needsUsers() {
		c.Maps[mapUsers] = sharedMap(mapUsers, userSlots)
	}
	for _, hook := range hooks {
		code := asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}
		if !w.empty {
			code = programs[hook](w)
		}
		c.Programs[hook] = program(hook, code)
	}
	return c
}
