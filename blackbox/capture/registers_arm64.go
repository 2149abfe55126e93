package capture

// These are the fields of struct pt_regs that have the number of a system call and its second
// argument.
const (
	systemCallField = "syscallno"
	argumentField   = "regs"
	argumentOffset  = 8
)

// oldWaitingCalls is empty here. On amd64, it has further system calls in which a thread waits for
// data.
var oldWaitingCalls []int32
