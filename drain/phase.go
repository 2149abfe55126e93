package drain

// phase is the purpose of a look at a ring. Each phase includes the one before.
type phase int

const (
	live  phase = iota // the program goes on: what is due
	flush              // somebody waits: all that the ring holds
	dead               // the program is gone: all, and nothing follows
)
