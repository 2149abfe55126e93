package capture

import (
	"github.com/cilium/ebpf/asm"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
)

// These hooks report what happens beside messages. A kernel may lack them.
const (
	hookState    = "inet_sock_set_state" // (sk, old, new): a connection begins or ends
	hookAgain    = "tcp_retransmit_skb"  // (sk, packet): TCP sends a packet again
	hookArrived  = "sk_data_ready"       // (sk): the kernel has data for a program
	hookWoke     = "sched_waking"        // (task): somebody wakes a thread
	hookForked   = "sched_process_fork"  // (parent, child): a thread begins
	hookExecuted = "sched_process_exec"  // (task): a thread runs another program
	hookExited   = "sched_process_exit"  // (task): a thread ends
)

// These are states of a TCP socket.
const (
	tcpEstablished  = 1
	tcpSynSent      = 2
	tcpSynReceived  = 3
	tcpClosed       = 7
	tcpListen       = 10
	tcpProtocol     = 6
	packetEndOffset = 4 // in a packet's control block: sequence number after its last byte
)

// arrivedProgram is the program of hookArrived. It notes the moment in the socket's entry, where
// the program of hookReceived finds it. So an arrival needs no report.
//
// The program also notes which bytes have come since the previous arrival. If there is no previous
// arrival, it knows these bytes only if the present packet is the first one with data.
func (w writer) arrivedProgram() asm.Instructions {
	f := w.f
	w.add(
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R6, 0, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, f.state, asm.Byte),
		asm.JEq.Imm(asm.R1, tcpListen, "end"),
		asm.Mov.Imm(asm.R9, 0),
	)
	w.loadSocket()
	w.add(
		asm.JNE.Imm(asm.R3, kindTCP, "end"),
		asm.Mov.Reg(asm.R9, asm.R4),
	)
	w.loadTCP()
	last := int16(socketArrivals)
	w.add(
		asm.LoadMem(asm.R7, asm.R0, f.rcvNxt, asm.Word),
		asm.LoadMem(asm.R1, asm.R9, last+arrivalStamp, asm.DWord),
		asm.LoadMem(asm.R2, asm.R9, last+arrivalRange, asm.DWord),
		asm.LoadMem(asm.R3, asm.R9, last+arrivalCheck, asm.DWord),
		asm.LoadMem(asm.R4, asm.R9, 0, asm.DWord),
		asm.Mov.Reg(asm.R5, asm.R4),
		asm.Xor.Reg(asm.R5, asm.R1),
		asm.Xor.Reg(asm.R5, asm.R2),
		asm.JNE.Reg(asm.R5, asm.R3, "first"),
		asm.StoreMem(asm.R9, last+arrivalBytes+arrivalStamp, asm.R1, asm.DWord),
		asm.StoreMem(asm.R9, last+arrivalBytes+arrivalRange, asm.R2, asm.DWord),
		asm.StoreMem(asm.R9, last+arrivalBytes+arrivalCheck, asm.R3, asm.DWord),
		asm.JEq.Reg32(asm.R2, asm.R7, "end"), // nothing new has come
		asm.Ja.Label("since"),

		asm.LoadMem(asm.R2, asm.R0, f.copiedSeq, asm.Word).WithSymbol("first"),
		asm.LoadMem(asm.R1, asm.R0, f.dataSegments, asm.Word),
		asm.JEq.Imm(asm.R1, 1, "since"),
		asm.Mov.Reg(asm.R2, asm.R7),

		asm.LSh.Imm(asm.R2, 32).WithSymbol("since"),
		asm.Or.Reg(asm.R7, asm.R2),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.R9, last+arrivalStamp, asm.R0, asm.DWord),
		asm.StoreMem(asm.R9, last+arrivalRange, asm.R7, asm.DWord),
		asm.LoadMem(asm.R4, asm.R9, 0, asm.DWord),
		asm.Xor.Reg(asm.R4, asm.R0),
		asm.Xor.Reg(asm.R4, asm.R7),
		asm.StoreMem(asm.R9, last+arrivalCheck, asm.R4, asm.DWord),
		asm.Ja.Label("end"),
	)
	w.endLost()
	return w.to
}

// lookForLastByte looks for the last byte of the message in the last two arrivals. If one of them
// brought this byte, lookForLastByte notes in stackWhat how long before the stamp the message was
// ready. R9 is the socket's entry.
func (w *writer) lookForLastByte() {
	found := "report"
	if w.also.Calls {
		found = "came"
	}
	for i, next := range []string{"earlier", "unseen"} {
		at := int16(socketArrivals + i*arrivalBytes)
		w.add(
			asm.LoadMem(asm.R1, asm.R9, at+arrivalStamp, asm.DWord),
			asm.LoadMem(asm.R2, asm.R9, at+arrivalRange, asm.DWord),
			asm.LoadMem(asm.R3, asm.R9, at+arrivalCheck, asm.DWord),
			asm.LoadMem(asm.R4, asm.R9, 0, asm.DWord),
			asm.Xor.Reg(asm.R4, asm.R1),
			asm.Xor.Reg(asm.R4, asm.R2),
			asm.JNE.Reg(asm.R4, asm.R3, next),
			asm.Mov.Reg(asm.R3, asm.R2),
			asm.RSh.Imm(asm.R3, 32),
			asm.LoadMem(asm.R4, asm.RFP, stackSequence, asm.DWord),
			// Count bytes from the beginning of the arrival: R2 is the number up to the arrival's
			// end, and R4 the number up to the message's end.
			asm.Sub.Reg32(asm.R2, asm.R3),
			asm.Sub.Reg32(asm.R4, asm.R3),
			asm.JEq.Imm32(asm.R4, 0, next),
			asm.JGT.Reg32(asm.R4, asm.R2, next),
			asm.LoadMem(asm.R2, asm.RFP, stackStamp, asm.DWord),
			asm.Sub.Reg(asm.R2, asm.R1),
			asm.Mov.Reg(asm.R3, asm.R2),
			asm.RSh.Imm(asm.R3, 32),
			asm.JNE.Imm(asm.R3, 0, "unseen"), // too long for the field
			asm.And.Imm(asm.R2, ^15),
			asm.Or.Imm(asm.R2, whatStream|whatCame),
			asm.StoreMem(asm.RFP, stackWhat, asm.R2, asm.DWord),
			asm.StoreMem(asm.RFP, stackArrived, asm.R1, asm.DWord),
			asm.Ja.Label(found),
		)
		if i == 0 {
			w.add(asm.Mov.Imm(asm.R1, 0).WithSymbol("earlier"))
		}
	}
	w.add(asm.Mov.Imm(asm.R1, 0).WithSymbol("unseen"))
}

// reserveHappening gets room for a happening, and fills in what is on the stack. The function fill
// adds more. R7 is the socket, if there is one. R9 is the room.
func (w *writer) reserveHappening(fill func()) {
	w.reserveReport(happeningBytes)
	w.add(asm.Mov.Imm(asm.R1, 0))
	for at := int16(0); at < happeningBytes; at += 8 {
		w.add(asm.StoreMem(asm.R9, at, asm.R1, asm.DWord))
	}
	w.add(
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.R9, happeningStamp, asm.R0, asm.DWord),
		asm.LoadMem(asm.R1, asm.RFP, stackWhat, asm.DWord),
		asm.StoreMem(asm.R9, happeningWhat, asm.R1, asm.Word),
	)
	fill()
	w.submitReport()
	w.add(asm.Ja.Label("end"))
	w.endLost()
}

// stateProgram is the program of hookState.
func (w writer) stateProgram() asm.Instructions {
	w.add(
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R6, 0, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, w.f.protocol, asm.Half),
		asm.JNE.Imm(asm.R1, tcpProtocol, "end"),
		asm.Mov.Imm(asm.R8, 0),
		asm.LoadMem(asm.R1, asm.R6, 8, asm.DWord),
		asm.LoadMem(asm.R2, asm.R6, 16, asm.DWord),
		asm.Mov.Imm(asm.R3, int32(blackbox.Connecting)),
		asm.JEq.Imm32(asm.R2, tcpSynSent, "asks"),
		asm.Mov.Imm(asm.R3, int32(blackbox.Closed)),
		asm.JEq.Imm32(asm.R2, tcpClosed, "closed"),
		asm.JNE.Imm32(asm.R2, tcpEstablished, "end"),
		asm.Mov.Imm(asm.R3, int32(blackbox.Connected)),
		asm.JEq.Imm32(asm.R1, tcpSynSent, "happened"),
		asm.Mov.Imm(asm.R3, int32(blackbox.Accepted)),
		asm.JEq.Imm32(asm.R1, tcpSynReceived, "happened"),
		asm.Ja.Label("end"),

		asm.LoadMem(asm.R1, asm.R7, w.f.cookie, asm.DWord).WithSymbol("closed"),
		asm.JEq.Imm(asm.R1, 0, "end"), // nothing was seen of this socket
		asm.Ja.Label("happened"),

		asm.StoreMem(asm.RFP, stackWhat, asm.R3, asm.DWord).WithSymbol("asks"),
	)
	w.loadThread()
	w.add(
		asm.LoadMem(asm.R3, asm.RFP, stackWhat, asm.DWord),
		asm.StoreMem(asm.RFP, stackWhat, asm.R3, asm.DWord).WithSymbol("happened"),
	)
	w.reserveHappening(func() {
		w.add(
			asm.StoreMem(asm.R9, happeningThread, asm.R8, asm.Word),
			asm.Mov.Reg(asm.R1, asm.R7),
			asm.FnGetSocketCookie.Call(),
			asm.StoreMem(asm.R9, happeningCookie, asm.R0, asm.DWord),
		)
	})
	return w.to
}

// againProgram is the program of hookAgain.
func (w writer) againProgram() asm.Instructions {
	f := w.f
	w.add(
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R6, 0, asm.DWord),
		asm.LoadMem(asm.R8, asm.R6, 8, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, f.cookie, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, "end"), // nothing was seen of this socket
		asm.LoadMem(asm.R1, asm.R8, f.packetLen, asm.Word),
		asm.JEq.Imm(asm.R1, 0, "end"), // a packet without data
	)
	w.storeOnStack(stackWhat, int32(blackbox.Retransmitted))
	w.reserveHappening(func() {
		w.add(asm.Mov.Reg(asm.R1, asm.R8))
		w.copyField(happeningSequence, f.packetControl, asm.Word)
		w.copyField(happeningLength, f.packetLen, asm.Word)
		w.add(asm.Mov.Reg(asm.R1, asm.R7))
		w.copyField(happeningCookie, f.cookie, asm.DWord)
	})
	return w.to
}
