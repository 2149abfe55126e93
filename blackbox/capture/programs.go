package capture

import (
	"fmt"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// These programs run in the kernel, one at each hook. A hook is a place in the kernel's code. The
// programs are written in the instructions of eBPF, so no compiler is needed, neither when the
// agent is built nor when it starts. The kernel checks each program before it accepts it.
//
// A call that sends over TCP passes two hooks. At hookBegin, the kernel has locked the socket and
// has not yet taken a byte of the message. At hookSent, the call is about to return. All other
// sending calls pass only hookSent. A receiving call passes only hookReceived, when it is about to
// return.
const (
	hookBegin    = "tcp_sendmsg_locked" // (sk, msg, skb, size_goal); since Linux 6.16
	hookSent     = "sock_send_length"   // (sk, result, flags); since Linux 6.3
	hookReceived = "sock_recv_length"   // (sk, result, flags); since Linux 6.3
)

// licence is the licence of the programs in this file, and of no other code. The kernel shows its
// structures only to programs that may also be used under the GPL.
const licence = "Dual MIT/GPL"

// sockDone is the bit of a socket's flags that says that the peer has ended its stream.
const sockDone = 1

// bpfNoWakeup tells the kernel not to wake the reader, which looks by itself.
const bpfNoWakeup = 1

// writer collects the instructions of one program. R6 is the context of the hook, R7 the socket and
// R8 the socket's state.
type writer struct {
	f  *fields
	to asm.Instructions
}

func (w *writer) add(i ...asm.Instruction) { w.to = append(w.to, i...) }

// state loads the address of the socket's state into R8. If there is no memory for the state, the
// program jumps to the label full.
func (w *writer) state() {
	w.add(
		asm.LoadMapPtr(asm.R1, 0).WithReference(mapStates),
		asm.Mov.Reg(asm.R2, asm.R7),
		asm.Mov.Imm(asm.R3, 0),
		asm.Mov.Imm(asm.R4, unix.BPF_SK_STORAGE_GET_F_CREATE),
		asm.FnSkStorageGet.Call(),
		asm.JEq.Imm(asm.R0, 0, "full"),
		asm.Mov.Reg(asm.R8, asm.R0),
	)
}

// entry loads the address of the thread's entry in the socket's state into R1. R0 has the thread.
func (w *writer) entry() {
	w.add(
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.And.Imm(asm.R1, sends-1),
		asm.Mul.Imm(asm.R1, sendBytes),
		asm.Add.Reg(asm.R1, asm.R8),
		asm.Add.Imm(asm.R1, stateSends),
	)
}

// lose counts a message that cannot be handed over, and ends the program.
func (w *writer) lose() {
	w.add(
		asm.LoadMapValue(asm.R1, 0, 0).WithReference(mapLost).WithSymbol("full"),
		asm.Mov.Imm(asm.R2, 1),
		asm.AddAtomic.Mem(asm.R1, asm.R2, asm.DWord, 0),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("end"),
		asm.Return(),
	)
}

// begin is the program of hookBegin. A call passes the hook once for each part of a large message.
// The program notes only the first time.
func begin(f *fields) asm.Instructions {
	w := &writer{f: f}
	w.add(
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R6, 0, asm.DWord),
	)
	w.state()
	w.add(asm.FnGetCurrentPidTgid.Call())
	w.entry()
	w.add(
		asm.Mov.Reg(asm.R8, asm.R1),
		asm.Mov.Reg(asm.R9, asm.R0),
		asm.LoadMem(asm.R1, asm.R8, sendThread, asm.DWord),
		asm.JNE.Reg(asm.R1, asm.R9, "first"),
		asm.LoadMem(asm.R1, asm.R8, sendBegan, asm.DWord),
		asm.JNE.Imm(asm.R1, 0, "end"),

		asm.Mov.Reg(asm.R1, asm.R7).WithSymbol("first"),
		asm.FnSkcToTcpSock.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"),
		// R3 becomes the number of bytes that were sent before: those that the peer has
		// acknowledged, and those that it has not.
		asm.LoadMem(asm.R1, asm.R0, f.writeSeq, asm.Word),
		asm.LoadMem(asm.R2, asm.R0, f.sndUna, asm.Word),
		asm.LoadMem(asm.R3, asm.R0, f.bytesAcked, asm.DWord),
		asm.Mov.Reg32(asm.R4, asm.R1),
		asm.Sub.Reg32(asm.R4, asm.R2),
		asm.Add.Reg(asm.R3, asm.R4),
	)
	w.position()
	w.add(
		asm.StoreMem(asm.R8, sendPosition, asm.R3, asm.DWord),
		asm.StoreMem(asm.R8, sendThread, asm.R9, asm.DWord),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.R8, sendBegan, asm.R0, asm.DWord),
		asm.Ja.Label("end"),
	)
	w.lose()
	return w.to
}

// position replaces the number of bytes in R3 by a position: the sequence number in R1 as it would
// be if it did not wrap around at 2^32. Both ends of a connection compute the same positions,
// whenever the capture began.
func (w *writer) position() {
	w.add(
		asm.Mov.Reg32(asm.R4, asm.R1),
		asm.Sub.Reg32(asm.R4, asm.R3),
		asm.Add.Reg(asm.R3, asm.R4),
	)
}

// These are the places on the stack of the programs of hookSent and hookReceived.
const (
	stackThread   = -8
	stackBegan    = -16
	stackPosition = -24
	stackWhat     = -32
	stackEnded    = -40
	stackRound    = -48
)

// open is the first part of the programs of hookSent and hookReceived. It ends the program for a
// socket that is neither IPv4, IPv6 nor UNIX, and for a call of the agent itself. Otherwise it
// loads the socket's state.
func (w *writer) open(own uint32) {
	w.add(
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R6, 0, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, w.f.family, asm.Half),
		asm.JEq.Imm(asm.R1, unix.AF_INET, "wanted"),
		asm.JEq.Imm(asm.R1, unix.AF_INET6, "wanted"),
		asm.JNE.Imm(asm.R1, unix.AF_UNIX, "end"),
		asm.FnGetCurrentPidTgid.Call().WithSymbol("wanted"),
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.RSh.Imm(asm.R1, 32),
		asm.JEq.Imm32(asm.R1, int32(own), "end"),
		asm.StoreMem(asm.RFP, stackThread, asm.R0, asm.DWord),
	)
	w.state()
}

// describe hands over a description of the socket, unless that was done before in this round.
func (w *writer) describe() {
	f := w.f
	w.add(
		asm.LoadMapValue(asm.R1, 0, 0).WithReference(mapRound),
		asm.LoadMem(asm.R1, asm.R1, 0, asm.DWord),
		asm.LoadMem(asm.R2, asm.R8, stateDescribed, asm.DWord),
		asm.JEq.Reg(asm.R1, asm.R2, "described"),
		asm.StoreMem(asm.RFP, stackRound, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, 0).WithReference(mapSightings),
		asm.Mov.Imm(asm.R2, descriptionBytes),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnRingbufReserve.Call(),
		asm.JEq.Imm(asm.R0, 0, "full"),
		asm.Mov.Reg(asm.R9, asm.R0),
		asm.LoadMem(asm.R1, asm.RFP, stackRound, asm.DWord),
		asm.StoreMem(asm.R8, stateDescribed, asm.R1, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R7),
		asm.FnGetSocketCookie.Call(),
		asm.StoreMem(asm.R9, descriptionCookie, asm.R0, asm.DWord),
	)
	copied := func(to, from int16, size asm.Size) {
		w.add(asm.LoadMem(asm.R1, asm.R7, from, size), asm.StoreMem(asm.R9, to, asm.R1, size))
	}
	copied(descriptionLocal6, f.local6, asm.DWord)
	copied(descriptionLocal6+8, f.local6+8, asm.DWord)
	copied(descriptionRemote6, f.remote6, asm.DWord)
	copied(descriptionRemote6+8, f.remote6+8, asm.DWord)
	copied(descriptionLocal4, f.local4, asm.Word)
	copied(descriptionRemote4, f.remote4, asm.Word)
	copied(descriptionLocalPort, f.localPort, asm.Half)
	copied(descriptionRemotePort, f.remotePort, asm.Half)
	copied(descriptionFamily, f.family, asm.Half)
	copied(descriptionProtocol, f.protocol, asm.Half)
	w.add(
		asm.LoadMem(asm.R1, asm.R7, f.net, asm.DWord),
		asm.LoadMem(asm.R1, asm.R1, f.netNumber, asm.Word),
		asm.StoreMem(asm.R9, descriptionNamespace, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R4, 0),
		asm.StoreMem(asm.R9, descriptionPeer, asm.R4, asm.DWord),
		asm.StoreMem(asm.R9, descriptionSends, asm.R4, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R7),
		asm.FnSkcToTcpSock.Call(),
		asm.JEq.Imm(asm.R0, 0, "other"),
	)
	w.origin(descriptionSends, f.sndUna, f.bytesAcked)
	w.origin(descriptionReceives, f.rcvNxt, f.bytesReceived)
	w.add(
		asm.Ja.Label("submit"),
		asm.Mov.Reg(asm.R1, asm.R7).WithSymbol("other"),
		asm.FnSkcToUnixSock.Call(),
		asm.JEq.Imm(asm.R0, 0, "submit"),
		asm.LoadMem(asm.R1, asm.R0, f.unixPeer, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, "submit"),
		asm.LoadMem(asm.R1, asm.R1, f.cookie, asm.DWord),
		asm.StoreMem(asm.R9, descriptionPeer, asm.R1, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R9).WithSymbol("submit"),
		asm.Mov.Imm(asm.R2, bpfNoWakeup),
		asm.FnRingbufSubmit.Call(),
	)
}

// origin stores where a stream began: its present sequence number, less the bytes until there. TCP
// chose both ends' origins at random, so they tell a connection from all others. R0 is the socket.
//
// Packets may change the numbers meanwhile. If they did, look again, but not for ever.
func (w *writer) origin(to, sequence, bytes int16) {
	const tries = 4
	done := fmt.Sprint("origin ", to)
	for range tries {
		w.add(
			asm.LoadMem(asm.R2, asm.R0, bytes, asm.DWord),
			asm.LoadMem(asm.R1, asm.R0, sequence, asm.Word),
			asm.LoadMem(asm.R3, asm.R0, bytes, asm.DWord),
			asm.JEq.Reg(asm.R2, asm.R3, done),
		)
	}
	w.add(
		asm.Sub.Reg32(asm.R1, asm.R2).WithSymbol(done),
		asm.StoreMem(asm.R9, to, asm.R1, asm.Word),
	)
}

// report hands over the sighting of the message whose parts are on the stack, and ends the program.
func (w *writer) report() {
	w.add(
		asm.LoadMapPtr(asm.R1, 0).WithReference(mapSightings).WithSymbol("report"),
		asm.Mov.Imm(asm.R2, sightingBytes),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnRingbufReserve.Call(),
		asm.JEq.Imm(asm.R0, 0, "full"),
		asm.Mov.Reg(asm.R9, asm.R0),
		asm.Mov.Reg(asm.R1, asm.R7),
		asm.FnGetSocketCookie.Call(),
		asm.StoreMem(asm.R9, sightingCookie, asm.R0, asm.DWord),
	)
	for _, v := range []struct{ to, from int16 }{
		{sightingBegan, stackBegan}, {sightingEnded, stackEnded},
		{sightingPosition, stackPosition}, {sightingThread, stackThread},
	} {
		w.add(asm.LoadMem(asm.R1, asm.RFP, v.from, asm.DWord),
			asm.StoreMem(asm.R9, v.to, asm.R1, asm.DWord))
	}
	w.add(
		asm.LoadMem(asm.R1, asm.R6, 8, asm.DWord),
		asm.StoreMem(asm.R9, sightingLength, asm.R1, asm.Word),
		asm.LoadMem(asm.R1, asm.RFP, stackWhat, asm.DWord),
		asm.StoreMem(asm.R9, sightingWhat, asm.R1, asm.Word),
		asm.Mov.Reg(asm.R1, asm.R9),
		asm.Add.Imm(asm.R1, sightingName),
		asm.Mov.Imm(asm.R2, sightingBytes-sightingName),
		asm.FnGetCurrentComm.Call(),
		asm.Mov.Reg(asm.R1, asm.R9),
		asm.Mov.Imm(asm.R2, bpfNoWakeup),
		asm.FnRingbufSubmit.Call(),
		asm.Ja.Label("end"),
	)
	w.lose()
}

// sent is the program of hookSent.
func sent(f *fields, own uint32) asm.Instructions {
	w := &writer{f: f}
	w.open(own)
	w.add(asm.LoadMem(asm.R0, asm.RFP, stackThread, asm.DWord))
	w.entry()
	w.add(
		// Take the beginning of the call out of the thread's entry: the call is over.
		asm.Mov.Imm(asm.R4, 0),
		asm.StoreMem(asm.RFP, stackBegan, asm.R4, asm.DWord),
		asm.Mov.Imm(asm.R4, 0),
		asm.StoreMem(asm.RFP, stackPosition, asm.R4, asm.DWord),
		asm.Mov.Imm(asm.R4, whatSent),
		asm.StoreMem(asm.RFP, stackWhat, asm.R4, asm.DWord),
		asm.LoadMem(asm.R2, asm.R1, sendThread, asm.DWord),
		asm.JNE.Reg(asm.R2, asm.R0, "taken"),
		asm.LoadMem(asm.R2, asm.R1, sendBegan, asm.DWord),
		asm.StoreMem(asm.RFP, stackBegan, asm.R2, asm.DWord),
		asm.LoadMem(asm.R2, asm.R1, sendPosition, asm.DWord),
		asm.StoreMem(asm.RFP, stackPosition, asm.R2, asm.DWord),
		asm.Mov.Imm(asm.R4, 0),
		asm.StoreMem(asm.R1, sendBegan, asm.R4, asm.DWord),

		asm.LoadMem(asm.R1, asm.R6, 8, asm.DWord).WithSymbol("taken"),
		asm.JSLE.Imm32(asm.R1, 0, "end"), // nothing was sent
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, stackEnded, asm.R0, asm.DWord),
	)
	w.describe()
	w.add(
		asm.Mov.Reg(asm.R1, asm.R7).WithSymbol("described"),
		asm.FnSkcToTcpSock.Call(),
		asm.JEq.Imm(asm.R0, 0, "report"),
		asm.LoadMem(asm.R1, asm.R0, f.writeSeq, asm.Word),
		asm.LoadMem(asm.R2, asm.R6, 8, asm.DWord),
		asm.LoadMem(asm.R3, asm.RFP, stackBegan, asm.DWord),
		asm.JEq.Imm(asm.R3, 0, "unseen"),
		// The message consists of all bytes since the beginning of the call, unless another thread
		// has sent some, too. In that case, the position is not sure.
		asm.LoadMem(asm.R3, asm.RFP, stackPosition, asm.DWord),
		asm.Add.Reg32(asm.R3, asm.R2),
		asm.Mov.Imm(asm.R4, whatSent|whatStream),
		asm.StoreMem(asm.RFP, stackWhat, asm.R4, asm.DWord),
		asm.JNE.Reg32(asm.R3, asm.R1, "report"),
		asm.Mov.Imm(asm.R4, whatSent|whatStream|whatSure),
		asm.StoreMem(asm.RFP, stackWhat, asm.R4, asm.DWord),
		asm.Ja.Label("report"),

		// The beginning of the call was not seen. Assume that the message ends where the stream
		// ends now.
		asm.LoadMem(asm.R4, asm.R0, f.sndUna, asm.Word).WithSymbol("unseen"),
		asm.LoadMem(asm.R3, asm.R0, f.bytesAcked, asm.DWord),
		asm.Mov.Reg32(asm.R5, asm.R1),
		asm.Sub.Reg32(asm.R5, asm.R4),
		asm.Add.Reg(asm.R3, asm.R5),
	)
	w.position()
	w.add(
		asm.Mov.Reg32(asm.R2, asm.R2),
		asm.Sub.Reg(asm.R3, asm.R2),
		asm.StoreMem(asm.RFP, stackPosition, asm.R3, asm.DWord),
		asm.Mov.Imm(asm.R4, whatSent|whatStream),
		asm.StoreMem(asm.RFP, stackWhat, asm.R4, asm.DWord),
	)
	w.report()
	return w.to
}

// received is the program of hookReceived.
func received(f *fields, own uint32) asm.Instructions {
	w := &writer{f: f}
	w.add(
		asm.LoadMem(asm.R2, asm.R1, 8, asm.DWord),
		asm.JSLE.Imm32(asm.R2, 0, "end"), // nothing was received
		asm.LoadMem(asm.R2, asm.R1, 16, asm.DWord),
		asm.And.Imm(asm.R2, unix.MSG_PEEK|unix.MSG_OOB|unix.MSG_ERRQUEUE),
		asm.JNE.Imm(asm.R2, 0, "end"), // such a call takes no bytes out of the stream
	)
	w.open(own)
	w.add(
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, stackEnded, asm.R0, asm.DWord),
		asm.Mov.Imm(asm.R4, 0),
		asm.StoreMem(asm.RFP, stackBegan, asm.R4, asm.DWord),
		asm.StoreMem(asm.RFP, stackPosition, asm.R4, asm.DWord),
		asm.Mov.Imm(asm.R4, whatReceived),
		asm.StoreMem(asm.RFP, stackWhat, asm.R4, asm.DWord),
	)
	w.describe()
	w.add(
		asm.Mov.Reg(asm.R1, asm.R7).WithSymbol("described"),
		asm.FnSkcToTcpSock.Call(),
		asm.JEq.Imm(asm.R0, 0, "report"),
		asm.LoadMem(asm.R1, asm.R0, f.copiedSeq, asm.Word),
		// The end of the stream has a sequence number of its own, after that of the last byte. If
		// the call has also received the end, the message ends at the number before it.
		asm.LoadMem(asm.R2, asm.R7, f.flags, asm.DWord),
		asm.And.Imm(asm.R2, 1<<sockDone),
		asm.JEq.Imm(asm.R2, 0, "open"),
		asm.LoadMem(asm.R2, asm.R0, f.rcvNxt, asm.Word),
		asm.JNE.Reg32(asm.R1, asm.R2, "open"),
		asm.Sub.Imm32(asm.R1, 1),
		// If the distance from the end of the previous message to the end of this one is this
		// message's length, it begins where the previous one ended. Otherwise other threads may
		// have received some bytes at the same time.
		asm.LoadMem(asm.R2, asm.R6, 8, asm.DWord).WithSymbol("open"),
		asm.Mov.Reg32(asm.R2, asm.R2),
		asm.Mov.Imm(asm.R9, whatReceived|whatStream|whatSure),
		asm.LoadMem(asm.R4, asm.R8, stateReceived, asm.DWord),
		asm.Mov.Reg(asm.R3, asm.R4),
		asm.Add.Reg(asm.R3, asm.R2),
		asm.JEq.Imm(asm.R4, 0, "first"),
		asm.JEq.Reg32(asm.R3, asm.R1, "sure"),

		// R3 becomes the number of bytes that were received up to here: those that arrived, without
		// those that nobody has taken yet. If bytes arrive between these loads, the numbers may not
		// fit together.
		asm.LoadMem(asm.R3, asm.R0, f.bytesReceived, asm.DWord).WithSymbol("first"),
		asm.LoadMem(asm.R4, asm.R0, f.rcvNxt, asm.Word),
		asm.LoadMem(asm.R5, asm.R0, f.bytesReceived, asm.DWord),
		asm.JEq.Reg(asm.R3, asm.R5, "settled"),
		asm.Mov.Imm(asm.R9, whatReceived|whatStream),
		asm.Sub.Reg32(asm.R4, asm.R1).WithSymbol("settled"),
		asm.Sub.Reg(asm.R3, asm.R4),
		asm.Mov.Reg(asm.R5, asm.R3), // number of bytes up to the message's end
	)
	w.position()
	w.add(
		asm.JEq.Reg(asm.R5, asm.R2, "sure"), // the stream begins with this message
		asm.Mov.Imm(asm.R9, whatReceived|whatStream),

		asm.StoreMem(asm.R8, stateReceived, asm.R3, asm.DWord).WithSymbol("sure"),
		asm.Sub.Reg(asm.R3, asm.R2),
		asm.StoreMem(asm.RFP, stackPosition, asm.R3, asm.DWord),
		asm.StoreMem(asm.RFP, stackWhat, asm.R9, asm.DWord),
	)
	w.report()
	return w.to
}
