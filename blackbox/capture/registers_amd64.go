package capture

import "golang.org/x/sys/unix"

// These are the fields of struct pt_regs that have the number of a system call and its second
// argument.
const (
	systemCallField = "orig_ax"
	argumentField   = "si"
	argumentOffset  = 0
)

// oldWaitingCalls are further system calls in which a thread waits for data. Newer architectures
// lack these system calls.
var oldWaitingCalls = []int32{unix.SYS_EPOLL_WAIT, unix.SYS_POLL, unix.SYS_SELECT}
