package capture

// These are the fields of struct pt_regs that have the number of a system call and its second
// argument.
const (
	systemCallField = "syscallno"
	argumentField   = "regs"
	argumentOffset  = 8
)

// oldWaitingCalls are system calls like waitingCalls that only older architectures have.
var oldWaitingCalls []int32
