package drain

// phase is the purpose of a look at a ring. Each phase does everything that the phase before it
// does, and more.
type phase int

const (
	live  phase = iota // the program continues: write what is due
	flush              // somebody waits: write everything that is in the ring
	dead               // the program is gone: write everything, because nothing follows
)
