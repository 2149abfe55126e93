package capture

import (
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
)

// If a message waited, either the kernel was late, because it had to wake a thread and copy the
// bytes, or the receiving process was late, because it did something else. The two hooks below show
// which of the two was late. The first hook sees the beginning of every system call. The second one
// sees the end of the system calls in which a thread waits for messages.
const (
	hookCall    = "sys_enter" // (registers, number)
	hookCallEnd = "sys_exit"  // (registers, result)
)

// mapCalls has an entry for each thread. The entry describes the thread's present or last system
// call, and the last system call in which the thread waited. The following constants are offsets in
// an entry.
const (
	mapCalls   = "calls"
	callBegan  = 0  // CLOCK_MONOTONIC in ns
	waitBegan  = 8  // 0: it never waited
	waitEnded  = 16 // 0: it still waits
	callsBytes = 24
)

// waitingCalls are the system calls in which a thread waits until some socket has data.
var waitingCalls = append([]int32{
	unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2, unix.SYS_PPOLL, unix.SYS_PSELECT6,
	unix.SYS_IO_URING_ENTER,
}, oldWaitingCalls...)

// callProgram is the program of hookCall.
func (w writer) callProgram() asm.Instructions {
	w.add(asm.Mov.Reg(asm.R6, asm.R1))
	w.loadCurrent()
	w.add(asm.LoadMem(asm.R7, asm.R6, 8, asm.DWord))
	w.loadCallEntry(unix.BPF_LOCAL_STORAGE_GET_F_CREATE, "end")
	w.add(
		asm.Mov.Reg(asm.R9, asm.R0),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.R9, callBegan, asm.R0, asm.DWord),
	)
	for _, number := range waitingCalls {
		w.add(asm.JEq.Imm(asm.R7, number, "waits"))
	}
	w.add(
		asm.Ja.Label("end"),
		asm.StoreMem(asm.R9, waitBegan, asm.R0, asm.DWord).WithSymbol("waits"),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.R9, waitEnded, asm.R1, asm.DWord),
	)
	w.end()
	return w.to
}

// callEnd is the program of hookCallEnd.
func (w writer) callEnd() asm.Instructions {
	w.loadCurrent()
	w.loadCallEntry(0, "end")
	w.add(
		asm.Mov.Reg(asm.R9, asm.R0),
		asm.LoadMem(asm.R1, asm.R9, callBegan, asm.DWord),
		asm.LoadMem(asm.R2, asm.R9, waitBegan, asm.DWord),
		asm.JNE.Reg(asm.R1, asm.R2, "end"),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.R9, waitEnded, asm.R0, asm.DWord),
	)
	w.end()
	return w.to
}

// loadCallEntry loads the address of the present thread's entry in mapCalls into R0. If the thread
// has no entry, it jumps to the given label.
func (w *writer) loadCallEntry(flags int32, none string) {
	w.add(
		asm.FnGetCurrentTaskBtf.Call(),
		asm.LoadMapPtr(asm.R1, 0).WithReference(mapCalls),
		asm.Mov.Reg(asm.R2, asm.R0),
		asm.Mov.Imm(asm.R3, 0),
		asm.Mov.Imm(asm.R4, flags),
		asm.FnTaskStorageGet.Call(),
		asm.JEq.Imm(asm.R0, 0, none),
	)
}

// reportBusy reports how long the receiving thread did something else while a message waited. The
// program in the kernel jumps to this code once it knows at which moment the message arrived. The
// thread did something else from the arrival to the beginning of the present call, except while it
// waited for messages.
func (w *writer) reportBusy() {
	w.add(asm.Mov.Imm(asm.R0, 0).WithSymbol("came"))
	w.loadCallEntry(0, "report")
	w.add(
		asm.LoadMem(asm.R1, asm.R0, callBegan, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, "report"),
		asm.LoadMem(asm.R2, asm.R0, waitBegan, asm.DWord),
		asm.LoadMem(asm.R3, asm.R0, waitEnded, asm.DWord),
		asm.LoadMem(asm.R4, asm.RFP, stackArrived, asm.DWord),
		asm.Mov.Imm(asm.R5, 0),
		asm.JLE.Reg(asm.R1, asm.R4, "asked"), // the call had begun when the message arrived
		asm.Mov.Reg(asm.R5, asm.R1),
		asm.Sub.Reg(asm.R5, asm.R4),
		asm.JEq.Imm(asm.R2, 0, "asked"),
		asm.JEq.Reg(asm.R1, asm.R2, "asked"), // the present call is one that waits
		asm.JEq.Imm(asm.R3, 0, "report"),     // its end was not seen
		asm.JLE.Reg(asm.R3, asm.R4, "asked"), // it ended before the message arrived
		asm.JGE.Reg(asm.R4, asm.R2, "waited"),
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Sub.Reg(asm.R3, asm.R4).WithSymbol("waited"),
		asm.Sub.Reg(asm.R5, asm.R3),
		asm.StoreMem(asm.RFP, stackBusy, asm.R5, asm.DWord).WithSymbol("asked"),

		asm.LoadMapPtr(asm.R1, 0).WithReference(mapRare),
		asm.Mov.Imm(asm.R2, happeningBytes),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnRingbufReserve.Call(),
		asm.JEq.Imm(asm.R0, 0, "report"), // then nobody knows how late the program was
		asm.Mov.Reg(asm.R9, asm.R0),
		asm.StoreMem(asm.R9, happeningThread, asm.R8, asm.Word),
		asm.Mov.Imm(asm.R1, int32(blackbox.Busy)),
		asm.StoreMem(asm.R9, happeningWhat, asm.R1, asm.Word),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.R9, happeningLength, asm.R1, asm.Word),
		asm.Mov.Reg(asm.R1, asm.R7),
	)
	w.copyField(happeningCookie, w.f.cookie, asm.DWord)
	w.add(asm.Mov.Reg(asm.R1, asm.RFP))
	w.copyField(happeningStamp, stackStamp, asm.DWord)
	w.copyField(happeningBusy, stackBusy, asm.DWord)
	w.copyField(happeningSequence, stackSequence, asm.Word)
	w.submitReport()
}
