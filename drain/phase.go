package drain

// phase is what a look at a ring is for. Each asks for all that the one before it does.
type phase int

const (
	live  phase = iota // the program goes on: what is due
	flush              // somebody waits: all that the ring holds
	dead               // the program is gone: all, and nothing follows
)
