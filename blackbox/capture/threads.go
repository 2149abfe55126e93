package capture

import (
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
)

// mapQueues has, for each processor, the address of the queue of its threads. 0: not known yet.
const mapQueues = "queues"

// loadNumbers loads the number of the present thread into the lower half of R8, and the number of
// its process into the upper half. Each processor has a queue, which points to the thread that
// runs, so a few loads are enough. A function of the kernel knows both numbers, too, but a call of
// it takes longer. The queue is wrong only while the kernel switches from one thread to another,
// and no hook that uses loadNumbers runs at that time.
func (w *writer) loadNumbers() {
	f := w.f
	if !w.direct {
		w.add(asm.FnGetCurrentPidTgid.Call(), asm.Mov.Reg(asm.R8, asm.R0))
		return
	}
	w.add(
		asm.FnGetSmpProcessorId.Call(), // the kernel replaces this call by a load
		asm.And.Imm(asm.R0, int32(w.s.processors-1)),
		asm.LSh.Imm(asm.R0, 3),
		asm.LoadMapValue(asm.R9, 0, 0).WithReference(mapQueues),
		asm.Add.Reg(asm.R9, asm.R0),
		asm.LoadMem(asm.R1, asm.R9, 0, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, "new processor"),
	)
	w.castTo(f.queue)
	w.add(
		asm.LoadMem(asm.R1, asm.R0, f.running, asm.DWord),
		asm.LoadMem(asm.R8, asm.R1, f.process, asm.Word),
		asm.LSh.Imm(asm.R8, 32),
		asm.LoadMem(asm.R1, asm.R1, f.number, asm.Word),
		asm.Or.Reg(asm.R8, asm.R1),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("numbers"),
	)
	w.putAside(func() {
		w.add(
			asm.FnGetCurrentTaskBtf.Call().WithSymbol("new processor"),
			asm.LoadMem(asm.R1, asm.R0, f.group, asm.DWord),
			asm.LoadMem(asm.R1, asm.R1, f.groupQueue, asm.DWord),
			asm.LoadMem(asm.R2, asm.R1, f.running, asm.DWord),
			asm.JNE.Reg(asm.R2, asm.R0, "other queue"),
			asm.StoreMem(asm.R9, 0, asm.R1, asm.DWord),
			asm.FnGetCurrentPidTgid.Call().WithSymbol("other queue"),
			asm.Mov.Reg(asm.R8, asm.R0),
			asm.Ja.Label("numbers"),
		)
	})
}

// loadCurrent writes eBPF code that loads the number of the present thread into R8. If the process
// of this thread has used no socket, the code ends the eBPF program.
func (w *writer) loadCurrent() {
	w.loadNumbers()
	w.loadUser()
	w.add(
		asm.LoadMem(asm.R1, asm.R1, 0, asm.Byte),
		asm.JEq.Imm(asm.R1, 0, "end"),
	)
}

// wokeProgram is the program of hookWoke. It reports that a thread woke another thread of its
// process, but only if it did so by a system call for waking threads. An interrupt also wakes
// threads, for example when data come. Then the registers of the present thread show no such system
// call.
func (w writer) wokeProgram() asm.Instructions {
	f := w.f
	w.add(
		asm.LoadMem(asm.R7, asm.R1, 0, asm.DWord),
		asm.FnGetCurrentPidTgid.Call(),
		asm.Mov.Reg(asm.R8, asm.R0),
		asm.RSh.Imm(asm.R0, 32),
		asm.LoadMem(asm.R1, asm.R7, f.process, asm.Word),
		asm.JNE.Reg32(asm.R0, asm.R1, "end"),
	)
	w.loadUser()
	w.add(
		asm.LoadMem(asm.R1, asm.R1, 0, asm.Byte),
		asm.JEq.Imm(asm.R1, 0, "end"),
		asm.FnGetCurrentTaskBtf.Call(),
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.FnTaskPtRegs.Call(),
		asm.LoadMem(asm.R1, asm.R0, f.systemCall, asm.Word),
		asm.JEq.Imm32(asm.R1, unix.SYS_FUTEX, "futex"),
	)
	for _, call := range wakingCalls {
		w.add(asm.JEq.Imm32(asm.R1, call, "wakes"))
	}
	w.add(
		asm.Ja.Label("end"),
		asm.LoadMem(asm.R1, asm.R0, f.argument, asm.DWord).WithSymbol("futex"),
		asm.And.Imm(asm.R1, futexCommand),
		asm.Mov.Imm(asm.R2, 1),
		asm.LSh.Reg(asm.R2, asm.R1),
		asm.LoadImm(asm.R1, futexWakes, asm.DWord),
		asm.And.Reg(asm.R2, asm.R1),
		asm.JEq.Imm(asm.R2, 0, "end"),
		asm.Mov.Imm(asm.R1, 0).WithSymbol("wakes"),
	)
	w.loadThreadEntry()
	w.add(
		// A call that sends over TCP wakes the receiver. This wake-up is not reported, because the
		// message already shows it.
		asm.LoadMem(asm.R1, asm.R9, threadBegan, asm.DWord),
		asm.JNE.Imm(asm.R1, 0, "end"),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, stackStamp, asm.R0, asm.DWord),
	)
	w.putSighting(wokeRing, func() {
		w.add(
			asm.LoadMem(asm.R1, asm.R7, f.number, asm.Word),
			asm.StoreMem(asm.R4, sightingCookie, asm.R1, asm.DWord),
		)
	})
	return w.to
}

// wakingCalls are the system calls, besides futex, that wake threads. write and writev are among
// them because a thread may wait for an eventfd or a pipe.
var wakingCalls = []int32{
	unix.SYS_WRITE, unix.SYS_WRITEV, unix.SYS_FUTEX_WAKE, unix.SYS_FUTEX_REQUEUE,
}

// These are commands of the system call futex.
const (
	futexCommand = 0x7f // mask
	// futexWakes has a bit for each command that wakes threads: wake, requeue, cmp_requeue,
	// wake_op, unlock_pi, wake_bitset and cmp_requeue_pi.
	futexWakes = 1<<1 | 1<<3 | 1<<4 | 1<<5 | 1<<7 | 1<<10 | 1<<12
)

// forkedProgram is the program of hookForked.
func (w writer) forkedProgram() asm.Instructions {
	w.add(asm.LoadMem(asm.R7, asm.R1, 8, asm.DWord))
	w.loadCurrent()
	w.loadThread()
	w.storeOnStack(stackWhat, int32(blackbox.Forked))
	w.reserveHappening(func() {
		w.add(
			asm.StoreMem(asm.R9, happeningThread, asm.R8, asm.Word),
			asm.Mov.Reg(asm.R1, asm.R7),
		)
		w.copyField(happeningOther, w.f.number, asm.Word)
		w.copyField(happeningProcess, w.f.process, asm.Word)
	})
	return w.to
}

// executedProgram is the program of hookExecuted.
func (w writer) executedProgram() asm.Instructions { return w.lifeProgram(blackbox.Executed) }

// exitedProgram is the program of hookExited.
func (w writer) exitedProgram() asm.Instructions { return w.lifeProgram(blackbox.Exited) }

// lifeProgram writes a program that reports what happens to the present thread.
func (w *writer) lifeProgram(what blackbox.What) asm.Instructions {
	w.loadCurrent()
	w.loadThread()
	w.storeOnStack(stackWhat, int32(what))
	w.reserveHappening(func() {
		w.add(asm.StoreMem(asm.R9, happeningThread, asm.R8, asm.Word))
	})
	return w.to
}

// reportGroups writes the names of the present thread's cgroup and of the groups above it into the
// report at R9. Once the process has ended, nobody can find out these names any more.
func (w *writer) reportGroups() {
	f := w.f
	w.add(asm.Mov.Imm(asm.R1, 0))
	for i := range groupLevels {
		w.add(asm.StoreMem(asm.R9, int16(nameGroups+i*groupBytes), asm.R1, asm.DWord))
	}
	if !w.groups {
		return
	}
	w.add(
		asm.FnGetCurrentTaskBtf.Call(),
		asm.LoadMem(asm.R1, asm.R0, f.cgroups, asm.DWord),
		asm.LoadMem(asm.R1, asm.R1, f.defaultGroup, asm.DWord),
		asm.LoadMem(asm.R1, asm.R1, f.groupNode, asm.DWord),
	)
	for i := range groupLevels {
		w.add(
			asm.JEq.Imm(asm.R1, 0, "grouped"),
			asm.StoreMem(asm.RFP, stackGroup, asm.R1, asm.DWord),
			asm.LoadMem(asm.R3, asm.R1, f.nodeName, asm.DWord),
			asm.Mov.Reg(asm.R1, asm.R9),
			asm.Add.Imm(asm.R1, int32(nameGroups+i*groupBytes)),
			asm.Mov.Imm(asm.R2, groupBytes),
			asm.FnProbeReadKernelStr.Call(),
			asm.LoadMem(asm.R1, asm.RFP, stackGroup, asm.DWord),
			asm.LoadMem(asm.R1, asm.R1, f.nodeParent, asm.DWord),
		)
	}
	w.add(asm.Mov.Imm(asm.R1, 0).WithSymbol("grouped"))
}
