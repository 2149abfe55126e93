package capture

import (
	"fmt"
	"math/bits"
	"runtime"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// The programs consist of these pieces, which decide what a message costs. A call of a kernel
// function takes longer than all loads and stores of a program. So the usual path through a program
// calls a kernel function only to read the clock, where that is needed.

// writer collects the instructions of one program. R6 is the context of the hook, R7 the socket, R8
// the thread, and R9 the thread's entry in mapThreads.
type writer struct {
	f      *fields
	s      sizes
	chosen kernelFilter
	also   Also
	own    uint32 // the agent's process, or 0
	groups bool   // report in which cgroup a thread is
	direct bool   // read from a processor's queue which thread it runs
	early  bool   // beginProgram runs
	empty  bool   // the programs do nothing
	to     asm.Instructions
	rare   asm.Instructions // come after the end of the others
}

func (w *writer) add(i ...asm.Instruction) { w.to = append(w.to, i...) }

// putAside puts the instructions of f at the end of the program. So the instructions that most
// messages need are close together in memory, and fill fewer lines of the processor's caches. Jumps
// lead to the instructions of f, and back from them.
func (w *writer) putAside(f func()) {
	usual := w.to
	w.to = nil
	f()
	w.rare = append(w.rare, w.to...)
	w.to = usual
}

// copyField copies a field from the structure at R1 to the report at R9. It changes R2.
func (w *writer) copyField(to, from int16, size asm.Size) {
	w.add(asm.LoadMem(asm.R2, asm.R1, from, size), asm.StoreMem(asm.R9, to, asm.R2, size))
}

// endLost ends the program. A jump to the label "full" first counts a message that cannot be
// reported.
func (w *writer) endLost() {
	w.putAside(func() {
		w.add(
			asm.LoadMapValue(asm.R1, 0, 0).WithReference(mapLost).WithSymbol("full"),
			asm.Mov.Imm(asm.R2, 1),
			asm.AddAtomic.Mem(asm.R1, asm.R2, asm.DWord, 0),
			asm.Ja.Label("end"),
		)
	})
	w.end()
}

func (w *writer) end() {
	w.add(asm.Mov.Imm(asm.R0, 0).WithSymbol("end"), asm.Return())
	w.add(w.rare...)
}

// loadEntry loads the address of a thread's entry into R9. R8 is the thread.
func (w *writer) loadEntry() {
	w.add(
		asm.Mov.Reg(asm.R1, asm.R8),
		asm.And.Imm(asm.R1, int32(w.s.slots-1)),
		asm.LSh.Imm(asm.R1, int32(bits.TrailingZeros(threadBytes))),
		asm.LoadMapValue(asm.R9, 0, 0).WithReference(mapThreads),
		asm.Add.Reg(asm.R9, asm.R1),
	)
}

// reserveReport gets room for a report in mapRare, and loads its address into R9.
func (w *writer) reserveReport(bytes int32) {
	w.add(
		asm.LoadMapPtr(asm.R1, 0).WithReference(mapRare),
		asm.Mov.Imm(asm.R2, bytes),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnRingbufReserve.Call(),
		asm.JEq.Imm(asm.R0, 0, "full"),
		asm.Mov.Reg(asm.R9, asm.R0),
	)
}

// submitReport passes a report to the capture. reserveReport got the room for this report.
func (w *writer) submitReport() {
	w.add(
		asm.Mov.Reg(asm.R1, asm.R9),
		asm.Mov.Imm(asm.R2, bpfNoWakeup),
		asm.FnRingbufSubmit.Call(),
	)
}

// loadUser loads the address of a process's entry in mapUsers into R1. R8 identifies the process.
func (w *writer) loadUser() {
	w.add(
		asm.Mov.Reg(asm.R2, asm.R8),
		asm.RSh.Imm(asm.R2, 32),
		asm.And.Imm(asm.R2, userSlots-1),
		asm.LoadMapValue(asm.R1, 0, 0).WithReference(mapUsers),
		asm.Add.Reg(asm.R1, asm.R2),
	)
}

// loadThread ends the program if the agent itself made the call. Otherwise it loads the thread and
// its entry. If the thread's name was not reported before, it reports the name.
func (w *writer) loadThread() {
	w.loadNumbers()
	w.loadThreadEntry()
}

// loadThreadEntry does the same if R8 already has the thread.
func (w *writer) loadThreadEntry() {
	w.add(
		asm.Mov.Reg(asm.R0, asm.R8),
		asm.RSh.Imm(asm.R0, 32),
		asm.JEq.Imm32(asm.R0, int32(w.own), "end"),
	)
	w.loadEntry()
	w.add(
		asm.LoadMem(asm.R1, asm.R9, threadNamed, asm.DWord),
		asm.JNE.Reg(asm.R1, asm.R8, "not named"),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("named"),
	)
	w.putAside(w.nameThread)
}

// nameThread reports the thread's name.
func (w *writer) nameThread() {
	w.add(
		asm.LoadMem(asm.R1, asm.R9, threadSkipped, asm.DWord).WithSymbol("not named"),
		asm.JEq.Reg(asm.R1, asm.R8, "end"),
	)
	if len(w.chosen.programs)+len(w.chosen.cgroups) > 0 {
		w.chooseThread()
	}
	w.reserveReport(nameBytes)
	w.add(
		asm.StoreMem(asm.R9, nameThread, asm.R8, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R9),
		asm.Add.Imm(asm.R1, nameOwn),
		asm.Mov.Imm(asm.R2, nameProgram-nameOwn),
		asm.FnGetCurrentComm.Call(),
		asm.FnGetCurrentTaskBtf.Call(),
		asm.LoadMem(asm.R1, asm.R0, w.f.leader, asm.DWord),
	)
	w.copyField(nameProgram, w.f.name, asm.DWord)
	w.copyField(nameProgram+8, w.f.name+8, asm.DWord)
	w.reportGroups()
	w.submitReport()
	if w.also.needsUsers() {
		w.loadUser()
		w.add(asm.Mov.Imm(asm.R2, 1), asm.StoreMem(asm.R1, 0, asm.R2, asm.Byte))
	}
	w.loadEntry()
	w.add(
		asm.LoadMem(asm.R1, asm.R9, threadBegan, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, "free"),
		asm.StoreMem(asm.R9, threadTaken, asm.R8, asm.DWord),
		asm.Mov.Imm(asm.R1, 0).WithSymbol("free"),
		asm.StoreMem(asm.R9, threadSocket, asm.R1, asm.DWord),
		asm.StoreMem(asm.R9, threadBegan, asm.R1, asm.DWord),
		asm.StoreMem(asm.R9, threadNamed, asm.R8, asm.DWord),
		asm.Ja.Label("named"),
	)
}

// loadSocket loads the kind of the socket into R3, and the address of its entry in mapSockets into
// R4. If the socket was not described since the last call of describeAgain, it first reports a
// description. It ends the program for a socket that is neither IPv4, IPv6 nor UNIX.
func (w *writer) loadSocket() {
	w.add(
		asm.LoadMem(asm.R2, asm.R7, w.f.cookie, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R2),
		asm.And.Imm(asm.R1, int32(w.s.slots-1)),
		asm.LSh.Imm(asm.R1, int32(bits.TrailingZeros(uint(w.s.socketBytes)))),
		asm.LoadMapValue(asm.R4, 0, 0).WithReference(mapSockets),
		asm.Add.Reg(asm.R4, asm.R1),
		asm.LoadMem(asm.R3, asm.R4, 0, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R3),
		asm.RSh.Imm(asm.R1, kindBits),
		asm.JEq.Imm(asm.R1, 0, "unknown"), // the entry was not used yet, or there is no cookie yet
		asm.JNE.Reg(asm.R1, asm.R2, "unknown"),
		asm.And.Imm(asm.R3, 1<<kindBits-1).WithSymbol("described"),
	)
	w.putAside(w.describeSocket)
}

// describeSocket reports a description of the socket, unless that was done since the last call of
// describeAgain.
func (w *writer) describeSocket() {
	f := w.f
	w.add(
		asm.LoadMem(asm.R1, asm.R7, f.family, asm.Half).WithSymbol("unknown"),
		asm.JEq.Imm(asm.R1, unix.AF_INET, "wanted"),
		asm.JEq.Imm(asm.R1, unix.AF_INET6, "wanted"),
		asm.JNE.Imm(asm.R1, unix.AF_UNIX, "end"),
		asm.Mov.Imm(asm.R2, 0).WithSymbol("wanted"),
	)
	if len(w.chosen.ports) > 0 {
		w.choosePort()
	}
	w.add(
		asm.LoadMapPtr(asm.R1, 0).WithReference(mapStates),
		asm.Mov.Reg(asm.R2, asm.R7),
		asm.Mov.Imm(asm.R3, 0),
		asm.Mov.Imm(asm.R4, unix.BPF_SK_STORAGE_GET_F_CREATE),
		asm.FnSkStorageGet.Call(),
		asm.JEq.Imm(asm.R0, 0, "full"),
		asm.LoadMapValue(asm.R1, 0, 0).WithReference(mapRound),
		asm.LoadMem(asm.R1, asm.R1, 0, asm.DWord),
		asm.LoadMem(asm.R2, asm.R0, 0, asm.DWord),
		asm.JEq.Reg(asm.R1, asm.R2, "again"), // another socket has used the entry since
		asm.StoreMem(asm.RFP, stackState, asm.R0, asm.DWord),
		asm.StoreMem(asm.RFP, stackRound, asm.R1, asm.DWord),
		asm.StoreMem(asm.RFP, stackEntry, asm.R9, asm.DWord),
	)
	w.reserveReport(descriptionBytes)
	w.fillDescription()
	w.submitReport()
	w.add(
		asm.LoadMem(asm.R9, asm.RFP, stackEntry, asm.DWord),
		asm.LoadMem(asm.R1, asm.RFP, stackState, asm.DWord),
		asm.LoadMem(asm.R2, asm.RFP, stackRound, asm.DWord),
		asm.StoreMem(asm.R1, 0, asm.R2, asm.DWord),

		asm.Mov.Reg(asm.R1, asm.R7).WithSymbol("again"),
		asm.FnSkcToTcpSock.Call(),
		asm.Mov.Imm(asm.R3, kindOther),
		asm.JEq.Imm(asm.R0, 0, "kind"),
		asm.LoadMem(asm.R1, asm.R7, f.kind, asm.Half),
		asm.JNE.Imm(asm.R1, unix.SOCK_STREAM, "kind"),
		asm.Mov.Imm(asm.R3, kindTCP),
		asm.LoadMem(asm.R2, asm.R7, f.cookie, asm.DWord).WithSymbol("kind"),
		asm.Mov.Reg(asm.R1, asm.R2),
		asm.And.Imm(asm.R1, int32(w.s.slots-1)),
		asm.LSh.Imm(asm.R1, int32(bits.TrailingZeros(uint(w.s.socketBytes)))),
		asm.LoadMapValue(asm.R4, 0, 0).WithReference(mapSockets),
		asm.Add.Reg(asm.R4, asm.R1),
		asm.LSh.Imm(asm.R2, kindBits),
		asm.Or.Reg(asm.R3, asm.R2),
		asm.StoreMem(asm.R4, 0, asm.R3, asm.DWord),
		asm.Ja.Label("described"),
	)
}

// fillDescription fills the room at R9 with a description of the socket.
func (w *writer) fillDescription() {
	f := w.f
	w.add(
		asm.Mov.Reg(asm.R1, asm.R7),
		asm.FnGetSocketCookie.Call(), // the socket has a cookie from now on
		asm.StoreMem(asm.R9, descriptionCookie, asm.R0, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R7),
	)
	w.copyField(descriptionLocal6, f.local6, asm.DWord)
	w.copyField(descriptionLocal6+8, f.local6+8, asm.DWord)
	w.copyField(descriptionRemote6, f.remote6, asm.DWord)
	w.copyField(descriptionRemote6+8, f.remote6+8, asm.DWord)
	w.copyField(descriptionLocal4, f.local4, asm.Word)
	w.copyField(descriptionRemote4, f.remote4, asm.Word)
	w.copyField(descriptionLocalPort, f.localPort, asm.Half)
	w.copyField(descriptionRemotePort, f.remotePort, asm.Half)
	w.copyField(descriptionFamily, f.family, asm.Half)
	w.copyField(descriptionProtocol, f.protocol, asm.Half)
	w.copyField(descriptionType, f.kind, asm.Half)
	w.add(asm.Mov.Imm(asm.R2, 0), asm.StoreMem(asm.R9, descriptionStart, asm.R2, asm.Half))
	w.add(asm.LoadMem(asm.R1, asm.R7, f.net, asm.DWord))
	w.copyField(descriptionNamespace, f.netNumber, asm.Word)
	w.add(asm.Mov.Imm(asm.R1, 0))
	for to := int16(descriptionPeer); to < descriptionBytes; to += 8 {
		w.add(asm.StoreMem(asm.R9, to, asm.R1, asm.DWord))
	}
	w.add(
		asm.Mov.Reg(asm.R1, asm.R7),
		asm.FnSkcToTcpSock.Call(),
		asm.JEq.Imm(asm.R0, 0, "other"),
	)
	w.storeStream(descriptionSends, descriptionSent, f.sndUna, f.bytesAcked)
	w.storeStream(descriptionReceives, descriptionReceived, f.rcvNxt, f.bytesReceived)
	w.storeStart()
	w.add(
		asm.Ja.Label("submit"),
		asm.Mov.Reg(asm.R1, asm.R7).WithSymbol("other"),
		asm.FnSkcToUnixSock.Call(),
		asm.JEq.Imm(asm.R0, 0, "submit"),
	)
	if f.peerProcess != 0 && f.processNumber != 0 {
		w.add(
			asm.LoadMem(asm.R1, asm.R7, f.peerProcess, asm.DWord),
			asm.JEq.Imm(asm.R1, 0, "nobody"),
			asm.LoadMem(asm.R2, asm.R1, f.processNumber, asm.Word),
			asm.StoreMem(asm.R9, descriptionSends, asm.R2, asm.Word),
		)
	}
	w.add(
		asm.LoadMem(asm.R1, asm.R0, f.unixPeer, asm.DWord).WithSymbol("nobody"),
		asm.JEq.Imm(asm.R1, 0, "submit"),
		asm.LoadMem(asm.R1, asm.R1, f.cookie, asm.DWord),
		asm.StoreMem(asm.R9, descriptionPeer, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R1, 0).WithSymbol("submit"),
	)
}

// storeStream stores a sequence number of a stream and the number of bytes before it. R0 is the
// socket.
//
// Packets may change the two values between the reads. If they did, the program reads again, but
// only a limited number of times.
func (w *writer) storeStream(toSequence, toBytes, sequence, bytes int16) {
	const tries = 4
	done := fmt.Sprint("stream ", toBytes)
	for range tries {
		w.add(
			asm.LoadMem(asm.R2, asm.R0, bytes, asm.DWord),
			asm.LoadMem(asm.R1, asm.R0, sequence, asm.Word),
			asm.LoadMem(asm.R3, asm.R0, bytes, asm.DWord),
			asm.JEq.Reg(asm.R2, asm.R3, done),
		)
	}
	w.add(
		asm.StoreMem(asm.R9, toSequence, asm.R1, asm.Word).WithSymbol(done),
		asm.StoreMem(asm.R9, toBytes, asm.R2, asm.DWord),
	)
}

// storeStart stores the distance from the number at which the stream begins to the number of the
// first byte that the socket sent. The kernel counts the beginning of a stream as an acknowledged
// byte at one of the two ends, but never as a sent byte. R0 is the socket. The distance is 0 or 1,
// unless packets changed a value between the reads.
func (w *writer) storeStart() {
	f := w.f
	w.add(
		asm.LoadMem(asm.R1, asm.R0, f.sndNxt, asm.Word),
		asm.LoadMem(asm.R2, asm.R0, f.bytesSent, asm.DWord),
		asm.Sub.Reg32(asm.R1, asm.R2),
		asm.LoadMem(asm.R2, asm.R0, f.bytesAgain, asm.DWord),
		asm.Add.Reg32(asm.R1, asm.R2),
		asm.LoadMem(asm.R2, asm.R9, descriptionSends, asm.Word),
		asm.Sub.Reg32(asm.R1, asm.R2),
		asm.LoadMem(asm.R2, asm.R9, descriptionSent, asm.DWord),
		asm.Add.Reg32(asm.R1, asm.R2),
		asm.JEq.Imm32(asm.R1, 1, "start"),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.R9, descriptionStart, asm.R1, asm.Half).WithSymbol("start"),
	)
}

// loadTCP loads the socket's address into R0, as the address of a TCP socket.
func (w *writer) loadTCP() {
	w.add(asm.Mov.Reg(asm.R1, asm.R7))
	w.castTo(w.f.tcpSock)
}

// castTo loads the address in R1 into R0, as the address of a given struct. The kernel replaces the
// call of its function by one move between registers.
func (w *writer) castTo(structNumber int32) {
	call := asm.Instruction{
		OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoKfuncCall,
		Constant: int64(w.f.cast),
	}
	w.add(asm.Mov.Imm(asm.R2, structNumber), call)
}

// These are places on the stack of the programs.
const (
	stackStamp    = -8
	stackSequence = -16
	stackWhat     = -24
	stackState    = -32
	stackRound    = -40
	stackEntry    = -48
	stackGroup    = -56
	stackArrived  = -64
	stackBusy     = -72
)

// storeOnStack stores a number on the stack.
func (w *writer) storeOnStack(at int16, value int32) {
	w.add(asm.Mov.Imm(asm.R1, value), asm.StoreMem(asm.RFP, at, asm.R1, asm.DWord))
}

// fillMessage fills in the fields of a message at R4.
func (w *writer) fillMessage() {
	w.add(
		asm.LoadMem(asm.R1, asm.R7, w.f.cookie, asm.DWord),
		asm.StoreMem(asm.R4, sightingCookie, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.RFP, stackSequence, asm.DWord),
		asm.StoreMem(asm.R4, sightingSequence, asm.R1, asm.Word),
		asm.LoadMem(asm.R1, asm.R6, 8, asm.DWord),
		asm.StoreMem(asm.R4, sightingLength, asm.R1, asm.Word),
		asm.LoadMem(asm.R1, asm.RFP, stackWhat, asm.DWord),
		asm.StoreMem(asm.R4, sightingWhat, asm.R1, asm.Word),
	)
}

// putSighting puts a sighting into a ring of this processor, and ends the program. The sighting
// gets the stamp that is on the stack. The function fill adds the other fields, and may change R1.
// Nobody else writes into the ring meanwhile, because the kernel never starts a program a second
// time on a processor that is still running it.
func (w *writer) putSighting(ring int32, fill func()) {
	s := w.s
	perRing := int32(bits.TrailingZeros(uint(s.sightings)))
	perProcessor := int32(bits.TrailingZeros(uint(s.rings)))
	each := int32(bits.TrailingZeros(sightingBytes))
	heads := uint32(ring) * headBytes
	rings := uint32(ring) * uint32(s.sightings) * sightingBytes
	w.add(
		asm.FnGetSmpProcessorId.Call().WithSymbol("report"),
		asm.And.Imm(asm.R0, int32(s.processors-1)),
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.LSh.Imm(asm.R1, int32(bits.TrailingZeros(uint(s.rings*headBytes)))),
		asm.LoadMapValue(asm.R5, 0, heads).WithReference(mapHeads),
		asm.Add.Reg(asm.R5, asm.R1),
		asm.LoadMem(asm.R2, asm.R5, headWritten, asm.DWord),
		asm.LoadMem(asm.R3, asm.R5, headSeen, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R2),
		asm.Sub.Reg(asm.R1, asm.R3),
		asm.JGE.Imm(asm.R1, int32(s.sightings), "look"),
		asm.Mov.Reg(asm.R1, asm.R2).WithSymbol("room"),
		asm.And.Imm(asm.R1, int32(s.sightings-1)),
		asm.LSh.Imm(asm.R1, each),
		asm.LSh.Imm(asm.R0, perProcessor+perRing+each),
		asm.LoadMapValue(asm.R4, 0, rings).WithReference(mapRings),
		asm.Add.Reg(asm.R4, asm.R0),
		asm.Add.Reg(asm.R4, asm.R1),
		asm.LoadMem(asm.R1, asm.RFP, stackStamp, asm.DWord),
		asm.StoreMem(asm.R4, sightingStamp, asm.R1, asm.DWord),
		asm.StoreMem(asm.R4, sightingThread, asm.R8, asm.Word),
	)
	fill()
	// The capture may read the sighting once it sees the new number.
	if runtime.GOARCH == "amd64" {
		w.add( // the processor makes stores visible in their order
			asm.Add.Imm(asm.R2, 1),
			asm.StoreMem(asm.R5, headWritten, asm.R2, asm.DWord),
		)
	} else {
		w.add(
			asm.Mov.Imm(asm.R1, 1),
			asm.FetchAdd.Mem(asm.R5, asm.R1, asm.DWord, headWritten),
		)
	}
	w.putAside(func() {
		// The capture writes headRead, so the line that has it may be in another processor's cache.
		// The programs read that line only if the ring seems to be full.
		w.add(
			asm.LoadMem(asm.R3, asm.R5, headRead, asm.DWord).WithSymbol("look"),
			asm.StoreMem(asm.R5, headSeen, asm.R3, asm.DWord),
			asm.Mov.Reg(asm.R1, asm.R2),
			asm.Sub.Reg(asm.R1, asm.R3),
			asm.JLT.Imm(asm.R1, int32(s.sightings), "room"),
			asm.LoadMem(asm.R1, asm.R5, headLost, asm.DWord),
			asm.Add.Imm(asm.R1, 1),
			asm.StoreMem(asm.R5, headLost, asm.R1, asm.DWord),
			asm.Ja.Label("end"),
		)
	})
	w.endLost()
}
