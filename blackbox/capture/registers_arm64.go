package capture

// These are the fields of struct pt_regs that have the number of a system call and its second
// argument.
const (
	systemCallField = "syscallno"
	argumentField   = "regs"
	argumentOffset  = 8
)

// oldWaitingCalls are waiting calls that this architecture does not have.
var oldWaitingCalls []int32
