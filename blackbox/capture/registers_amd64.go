package capture

// These are the fields of struct pt_regs that have the number of a system call and its second
// argument.
const (
	systemCallField = "orig_ax"
	argumentField   = "si"
	argumentOffset  = 0
)
