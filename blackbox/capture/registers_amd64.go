package capture

import "golang.org/x/sys/unix"

// These are the fields of struct pt_regs that have the number of a system call and its second
// argument.
const (
	systemCallField = "orig_ax"
	argumentField   = "si"
	argumentOffset  = 0
)

// oldWaitingCalls are further system calls like waitingCalls, which newer architectures lack.
var oldWaitingCalls = []int32{unix.SYS_EPOLL_WAIT, unix.SYS_POLL, unix.SYS_SELECT}
