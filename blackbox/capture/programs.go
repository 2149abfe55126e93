package capture

import (
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
	hookRenamed  = "task_rename"        // (task, name): a thread gets another name
)

// programs writes the program of each hook.
var programs = map[string]func(writer) asm.Instructions{
	hookBegin: writer.beginProgram, hookSent: writer.sentProgram,
	hookReceived: writer.receivedProgram,
	hookRenamed:  writer.renamedProgram,
	hookState:    writer.stateProgram, hookAgain: writer.againProgram,
	hookArrived: writer.arrivedProgram,
	hookWoke:    writer.wokeProgram, hookForked: writer.forkedProgram,
	hookExecuted: writer.executedProgram,
	hookExited:   writer.exitedProgram, hookCall: writer.callProgram, hookCallEnd: writer.callEnd,
}

// licence is the licence of the programs in this file, and of no other code. The kernel shows its
// structures only to programs that may also be used under the GPL.
const licence = "Dual MIT/GPL"

// sockDone is the bit of a socket's flags that says that the peer has ended its stream.
const sockDone = 1

// bpfNoWakeup tells the kernel not to wake the reader: the reader polls.
const bpfNoWakeup = 1

// These are the bits of a sighting's field what.
const (
	whatStream = 1 << 0 // of TCP: the sequence number is valid
	whatCame   = 1 << 2 // received: bits 4 to 31 say how long the message was ready before
	// A sent message has this bit if the stamp is the beginning of the call, and the sequence
	// number is that of the first byte. Then no other thread used the stream at the same time.
	whatEarly = 1 << 2

	whatWaiting   = 16 // bits 16 to 25 are Waiting, as in blackbox.Message
	whatLater     = 26 // bits 26 to 31: at most how many units after the stamp
	whatLaterMost = 63
	laterShift    = 5 // a unit is 32 ns
)

// beginProgram is the program of hookBegin. A call passes the hook once for each part of a large
// message. The program only notes the first pass.
//
// If another thread took this thread's entry, the program recognises the first pass in another way:
// the message is one piece of memory, and the kernel has taken no byte of it yet.
func (w writer) beginProgram() asm.Instructions {
	const onePiece = 0 // ITER_UBUF
	f := w.f
	w.add(
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R6, 0, asm.DWord),
	)
	w.loadThread()
	w.add(
		asm.LoadMem(asm.R3, asm.R6, 8, asm.DWord),
		asm.LoadMem(asm.R4, asm.R3, f.iterKind, asm.Byte),
		asm.LoadMem(asm.R3, asm.R3, f.iterOffset, asm.DWord),
		// Another thread that takes the entry clears these two fields in the opposite order.
		asm.LoadMem(asm.R2, asm.R9, threadBegan, asm.DWord),
		asm.LoadMem(asm.R1, asm.R9, threadSocket, asm.DWord),
		asm.StoreMem(asm.R9, threadSocket, asm.R7, asm.DWord),
		asm.JNE.Imm(asm.R1, 0, "used"),
		asm.LoadMem(asm.R5, asm.R9, threadTaken, asm.DWord),
		asm.JEq.Imm(asm.R5, 0, "idle"),
		asm.Ja.Label("taken over"),
		asm.JEq.Imm(asm.R2, 0, "idle").WithSymbol("used"),
		asm.JEq.Reg(asm.R1, asm.R7, "end"),

		asm.Mov.Imm(asm.R1, 1).WithSymbol("taken over"),
		asm.StoreMem(asm.R9, threadBegan, asm.R1, asm.DWord),
		asm.JNE.Imm(asm.R4, onePiece, "end"),
		asm.JNE.Imm(asm.R4, onePiece, "first").WithSymbol("idle"),
		asm.JNE.Imm(asm.R3, 0, "end"),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("first"),
	)
	w.loadTCP()
	w.add(
		asm.LoadMem(asm.R1, asm.R0, f.writeSeq, asm.Word),
		asm.StoreMem(asm.R9, threadPosition, asm.R1, asm.DWord),
		asm.Xor.Reg(asm.R8, asm.R1),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.R9, threadBegan, asm.R0, asm.DWord),
		asm.Xor.Reg(asm.R8, asm.R0),
		asm.StoreMem(asm.R9, threadCheck, asm.R8, asm.DWord),
		asm.Ja.Label("end"),
	)
	w.endLost()
	return w.to
}

// sentProgram is the program of hookSent.
func (w writer) sentProgram() asm.Instructions {
	f := w.f
	w.add(
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R6, 0, asm.DWord),
	)
	w.loadThread()
	if w.early {
		w.takeBeginning()
	}
	w.add(
		asm.LoadMem(asm.R1, asm.R6, 8, asm.DWord),
		asm.JSLE.Imm32(asm.R1, 0, "end"), // nothing was sent
	)
	w.loadSocket()
	w.add(
		asm.JEq.Imm(asm.R3, kindUnwanted, "end"),
		asm.JNE.Imm(asm.R3, kindTCP, "plain"),
	)
	w.loadTCP()
	w.add(asm.LoadMem(asm.R1, asm.R0, f.writeSeq, asm.Word))
	if !w.early {
		w.fillUnseen()
		w.putAside(func() { w.fillPlain(true) })
		w.putSighting(sentRing, w.fillMessage)
		return w.to
	}
	w.add(
		asm.LoadMem(asm.R2, asm.RFP, stackStamp, asm.DWord),
		asm.JEq.Imm(asm.R2, 0, "unseen"),
		// The stream must have grown by the message's bytes since the call began. If it has grown
		// by more, another thread sent some of them. If by fewer, a later part of the call was
		// mistaken for its beginning. In both cases the beginning counts as unseen.
		asm.LoadMem(asm.R2, asm.RFP, stackSequence, asm.DWord),
		asm.LoadMem(asm.R3, asm.R6, 8, asm.DWord),
		asm.Add.Reg32(asm.R2, asm.R3),
		asm.JNE.Reg32(asm.R1, asm.R2, "unseen"),
		asm.Mov.Imm(asm.R4, whatStream|whatEarly),
		asm.StoreMem(asm.RFP, stackWhat, asm.R4, asm.DWord),
	)
	w.putAside(func() {
		w.fillUnseen()
		w.add(asm.Ja.Label("report"))
		w.fillPlain(true)
	})
	w.putSighting(sentRing, w.fillMessage)
	return w.to
}

// takeBeginning moves the beginning of the call from the thread's entry to the stack, because the
// call is over. If the entry does not have it, the stamp on the stack is 0.
func (w *writer) takeBeginning() {
	w.storeOnStack(stackStamp, 0)
	w.add(
		asm.LoadMem(asm.R1, asm.R9, threadSocket, asm.DWord),
		asm.JNE.Reg(asm.R1, asm.R7, "taken"),
		asm.LoadMem(asm.R1, asm.R9, threadBegan, asm.DWord),
		asm.LoadMem(asm.R2, asm.R9, threadPosition, asm.DWord),
		asm.Mov.Imm(asm.R3, 0),
		asm.StoreMem(asm.R9, threadBegan, asm.R3, asm.DWord),
		asm.LoadMem(asm.R3, asm.R9, threadCheck, asm.DWord),
		asm.Xor.Reg(asm.R3, asm.R1),
		asm.Xor.Reg(asm.R3, asm.R2),
		asm.JNE.Reg(asm.R3, asm.R8, "taken"),
		asm.StoreMem(asm.RFP, stackStamp, asm.R1, asm.DWord),
		asm.StoreMem(asm.RFP, stackSequence, asm.R2, asm.DWord),
		asm.Mov.Imm(asm.R1, 0).WithSymbol("taken"),
	)
}

// fillUnseen stores what is known of a message over TCP if the beginning of the call was not seen.
// It assumes that the message ends where the stream ends now. R0 is the socket, and R1 the position
// at which the stream ends.
//
// TCP itself reads the clock when it begins to send packets, and when packets come, and keeps the
// last reading. If it has sent all bytes, it has read the clock since the call took the last byte.
// Then the program takes that reading, because a reading of its own costs more.
func (w *writer) fillUnseen() {
	f := w.f
	w.add(
		asm.StoreMem(asm.RFP, stackSequence, asm.R1, asm.DWord).WithSymbol("unseen"),
		asm.Mov.Imm(asm.R4, whatStream),
		asm.StoreMem(asm.RFP, stackWhat, asm.R4, asm.DWord),
		asm.LoadMem(asm.R2, asm.R0, f.sndNxt, asm.Word),
		asm.JNE.Reg32(asm.R1, asm.R2, "waits"),
		asm.LoadMem(asm.R0, asm.R0, f.clock, asm.DWord),
		asm.Ja.Label("stamped"),
		asm.FnKtimeGetNs.Call().WithSymbol("waits"),
		asm.StoreMem(asm.RFP, stackStamp, asm.R0, asm.DWord).WithSymbol("stamped"),
	)
}

// receivedProgram is the program of hookReceived.
//
// TCP itself reads the clock after it has copied bytes to the receiving process, and keeps the
// reading. If packets come, TCP reads the clock again. In both cases the reading is from a moment
// between the copy of the last byte and the end of the call.
func (w writer) receivedProgram() asm.Instructions {
	f := w.f
	w.add(
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R2, asm.R6, 8, asm.DWord),
		asm.JSLE.Imm32(asm.R2, 0, "end"), // nothing was received
		asm.LoadMem(asm.R2, asm.R6, 16, asm.DWord),
		asm.And.Imm(asm.R2, unix.MSG_PEEK|unix.MSG_OOB|unix.MSG_ERRQUEUE),
		asm.JNE.Imm(asm.R2, 0, "end"), // such a call takes no bytes out of the stream
		asm.LoadMem(asm.R7, asm.R6, 0, asm.DWord),
	)
	w.loadThread()
	w.loadSocket()
	w.add(
		asm.JEq.Imm(asm.R3, kindUnwanted, "end"),
		asm.JNE.Imm(asm.R3, kindTCP, "plain"),
		asm.Mov.Reg(asm.R9, asm.R4), // the socket's entry
	)
	w.loadTCP()
	w.add(
		asm.LoadMem(asm.R1, asm.R0, f.copiedSeq, asm.Word),
		// The end of the stream has a sequence number of its own, after that of the last byte. If
		// the call has also received this end, the message ends one number earlier.
		asm.LoadMem(asm.R2, asm.R7, f.flags, asm.DWord),
		asm.And.Imm(asm.R2, 1<<sockDone),
		asm.JEq.Imm(asm.R2, 0, "open"),
		asm.LoadMem(asm.R2, asm.R0, f.rcvNxt, asm.Word),
		asm.JNE.Reg32(asm.R1, asm.R2, "open"),
		asm.Sub.Imm32(asm.R1, 1),
		asm.StoreMem(asm.RFP, stackSequence, asm.R1, asm.DWord).WithSymbol("open"),
		asm.LoadMem(asm.R1, asm.R0, f.clock, asm.DWord),
		asm.StoreMem(asm.RFP, stackStamp, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R1, whatStream),
		asm.StoreMem(asm.RFP, stackWhat, asm.R1, asm.DWord),
	)
	if w.also.Arrivals {
		w.lookForLastByte()
	}
	w.putAside(func() {
		if w.also.Calls {
			w.reportBusy()
			w.add(asm.Ja.Label("report"))
		}
		w.fillPlain(false)
	})
	w.putSighting(receiveRing, w.fillMessage)
	return w.to
}

// renamedProgram is the program of hookRenamed. It lets the thread's name be reported before its
// next message.
func (w writer) renamedProgram() asm.Instructions {
	f := w.f
	w.add(
		asm.LoadMem(asm.R1, asm.R1, 0, asm.DWord),
		asm.LoadMem(asm.R8, asm.R1, f.number, asm.Word),
	)
	w.loadEntry()
	w.add(
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.R9, threadNamed, asm.R1, asm.DWord),
		asm.StoreMem(asm.R9, threadSkipped, asm.R1, asm.DWord),
	)
	w.end()
	return w.to
}
