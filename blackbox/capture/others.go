package capture

import (
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
)

// Messages that are not part of a TCP stream have no position. For such messages, the programs
// report what is needed to match the two ends: the number of pieces that wait at the receiver (UNIX
// sockets), and a checksum (datagrams). blackbox/FORMAT.md describes both.

// These are further places on the stack of the programs.
const (
	stackVector = -64                       // 16 bytes: an element of a vector
	stackHash   = -72                       // the checksum of the first bytes
	stackBytes  = stackHash - checksumBytes // bytes of a datagram
	_           = uint(512 + stackBytes)    // the kernel gives a program 512 bytes
)

// checksumBytes is the number of bytes at each end of a datagram from which the checksum is
// computed.
const checksumBytes = 64

// checksumFactor mixes the bits of a checksum.
const checksumFactor = 0x9E3779B97F4A7C15

// fillPlain fills in the sighting of a message that is not part of a TCP stream.
func (w *writer) fillPlain(sent bool) {
	f := w.f
	w.add(
		asm.Mov.Imm(asm.R4, 0).WithSymbol("plain"),
		asm.StoreMem(asm.RFP, stackWhat, asm.R4, asm.DWord),
		asm.StoreMem(asm.RFP, stackSequence, asm.R4, asm.DWord),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, stackStamp, asm.R0, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, f.family, asm.Half),
		asm.JNE.Imm(asm.R1, unix.AF_UNIX, "internet"),
	)
	w.noteWaiting(sent)
	w.add(
		asm.LoadMem(asm.R1, asm.R7, f.kind, asm.Half).WithSymbol("type"),
		asm.JEq.Imm(asm.R1, unix.SOCK_STREAM, "report"),
		asm.Ja.Label("datagram"),
		asm.LoadMem(asm.R1, asm.R7, f.protocol, asm.Half).WithSymbol("internet"),
		asm.JNE.Imm(asm.R1, unix.IPPROTO_UDP, "report"),
	)
	w.loadDatagram(sent)
	w.computeChecksum()
	w.add(asm.Ja.Label("report"))
}

// noteWaiting notes how many pieces of data wait for the receiver. The clock was read before, for
// the stamp. After reading the number of pieces, the program reads the clock again, and notes the
// time since the stamp. If this time is too long for its field, the number counts as not known.
func (w *writer) noteWaiting(sent bool) {
	f := w.f
	receiver := asm.R7
	if sent {
		receiver = asm.R1
		w.add(
			asm.Mov.Reg(asm.R1, asm.R7),
			asm.FnSkcToUnixSock.Call(),
			asm.JEq.Imm(asm.R0, 0, "type"),
			asm.LoadMem(asm.R1, asm.R0, f.unixPeer, asm.DWord),
			asm.JEq.Imm(asm.R1, 0, "type"),
		)
	}
	w.add(
		asm.LoadMem(asm.R9, receiver, f.waiting, asm.Word),
		asm.Add.Imm(asm.R9, 1),
		asm.JLE.Imm(asm.R9, blackbox.MaxWaiting, "few"),
		asm.Mov.Imm(asm.R9, blackbox.MaxWaiting),
		asm.LSh.Imm(asm.R9, whatWaiting).WithSymbol("few"),
		asm.FnKtimeGetNs.Call(),
		asm.LoadMem(asm.R1, asm.RFP, stackStamp, asm.DWord),
		asm.Sub.Reg(asm.R0, asm.R1),
		asm.RSh.Imm(asm.R0, laterShift),
		asm.Add.Imm(asm.R0, 1),
		asm.JGT.Imm(asm.R0, whatLaterMost, "type"),
		asm.LSh.Imm(asm.R0, whatLater),
		asm.Or.Reg(asm.R9, asm.R0),
		asm.StoreMem(asm.RFP, stackWhat, asm.R9, asm.DWord),
	)
}

// loadDatagram loads into R9 the address of the datagram in the memory of the process that made the
// call. It reports the message without a checksum if the datagram is not in one piece of memory, or
// if the system call is not known.
func (w *writer) loadDatagram(sent bool) {
	f := w.f
	calls := map[string][]int32{
		"direct": {unix.SYS_READ, unix.SYS_RECVFROM}, "vector": {unix.SYS_READV},
		"header": {unix.SYS_RECVMSG},
	}
	if sent {
		calls = map[string][]int32{
			"direct": {unix.SYS_WRITE, unix.SYS_SENDTO}, "vector": {unix.SYS_WRITEV},
			"header": {unix.SYS_SENDMSG},
		}
	}
	w.add(
		asm.FnGetCurrentTaskBtf.Call().WithSymbol("datagram"),
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.FnTaskPtRegs.Call(),
		asm.LoadMem(asm.R1, asm.R0, f.systemCall, asm.Word),
		asm.LoadMem(asm.R9, asm.R0, f.argument, asm.DWord),
	)
	for _, to := range []string{"direct", "vector", "header"} {
		for _, call := range calls[to] {
			w.add(asm.JEq.Imm(asm.R1, call, to))
		}
	}
	const vectorInHeader = 16 // struct msghdr
	w.add(
		asm.Ja.Label("report"),
		asm.Add.Imm(asm.R9, vectorInHeader).WithSymbol("header"),
	)
	w.readUser(stackVector, 16)
	w.add(
		asm.LoadMem(asm.R9, asm.RFP, stackVector, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("vector"),
	)
	w.readUser(stackVector, 16)
	w.add(
		asm.LoadMem(asm.R9, asm.RFP, stackVector, asm.DWord),
		asm.LoadMem(asm.R1, asm.RFP, stackVector+8, asm.DWord),
		asm.LoadMem(asm.R2, asm.R6, 8, asm.DWord),
		asm.JLT.Reg(asm.R1, asm.R2, "report"),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("direct"),
	)
}

// readUser copies bytes to the stack of the eBPF program. It reads them from the memory of the
// process that made the call. R9 is their address. If the parameter bytes is 0, R2 has the number
// of bytes.
func (w *writer) readUser(to int16, bytes int32) {
	if bytes != 0 {
		w.add(asm.Mov.Imm(asm.R2, bytes))
	}
	w.add(
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, int32(to)),
		asm.Mov.Reg(asm.R3, asm.R9),
		asm.FnProbeReadUser.Call(),
		asm.JNE.Imm(asm.R0, 0, "report"),
	)
}

// computeChecksum computes the checksum of the datagram at R9.
func (w *writer) computeChecksum() {
	w.add(asm.Mov.Imm(asm.R1, 0))
	for at := int16(0); at < checksumBytes; at += 8 {
		w.add(asm.StoreMem(asm.RFP, stackBytes+at, asm.R1, asm.DWord))
	}
	w.add(
		asm.LoadMem(asm.R2, asm.R6, 8, asm.DWord),
		asm.JSLE.Imm(asm.R2, 0, "report"),
		asm.JLE.Imm(asm.R2, checksumBytes, "short"),
		asm.Mov.Imm(asm.R2, checksumBytes),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("short"),
	)
	w.readUser(stackBytes, 0)
	w.add(asm.LoadMem(asm.R0, asm.R6, 8, asm.DWord))
	w.mixBytes()
	w.add(
		asm.LoadMem(asm.R1, asm.R6, 8, asm.DWord),
		asm.JLE.Imm(asm.R1, checksumBytes, "mixed"),
		asm.StoreMem(asm.RFP, stackHash, asm.R0, asm.DWord),
		asm.Add.Reg(asm.R9, asm.R1),
		asm.Sub.Imm(asm.R9, checksumBytes),
	)
	w.readUser(stackBytes, checksumBytes)
	w.add(asm.LoadMem(asm.R0, asm.RFP, stackHash, asm.DWord))
	w.mixBytes()
	w.add(
		asm.RSh.Imm(asm.R0, 32).WithSymbol("mixed"),
		asm.JNE.Imm(asm.R0, 0, "known"),
		asm.Mov.Imm(asm.R0, 1),
		asm.StoreMem(asm.RFP, stackSequence, asm.R0, asm.DWord).WithSymbol("known"),
	)
}

// mixBytes mixes the bytes on the stack into the checksum in R0.
func (w *writer) mixBytes() {
	factor := uint64(checksumFactor)
	w.add(asm.LoadImm(asm.R2, int64(factor), asm.DWord))
	for at := int16(0); at < checksumBytes; at += 8 {
		w.add(
			asm.LoadMem(asm.R1, asm.RFP, stackBytes+at, asm.DWord),
			asm.Xor.Reg(asm.R0, asm.R1),
			asm.Mul.Reg(asm.R0, asm.R2),
			asm.Mov.Reg(asm.R1, asm.R0),
			asm.RSh.Imm(asm.R1, 29),
			asm.Xor.Reg(asm.R0, asm.R1),
		)
	}
}
