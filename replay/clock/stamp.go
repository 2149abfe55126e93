package clock

// A Stamp says what a process knew at an event. One goroutine at a time may use it.
type Stamp struct {
	Max  int64 // the greatest epoch of any process that is known
	held []Known
}

// Known is the greatest known epoch of a process. A stamp holds it only if Epsilons do not already
// imply it.
type Known struct {
	Process uint32
	Epoch   int64
	// Counter tells apart events between which no known epoch changed. No program exhausts its 64
	// bits.
	Counter uint64
}

// Held returns the known epochs that the stamp holds, sorted by process. The caller must not change
// them.
func (s *Stamp) Held() []Known { return s.held }

// Copy replaces the stamp by a copy of another one.
func (s *Stamp) Copy(of *Stamp) { s.Max, s.held = of.Max, append(s.held[:0], of.held...) }

// Knows reports whether the event with this stamp is after a process's event at an epoch, because
// of causality or of time. If a process's epochs increase from event to event, the answer is exact.
// Knows is cheaper than Compare.
func (s *Stamp) Knows(process uint32, epoch int64, e *Epsilons) bool {
	for i := range s.held {
		if s.held[i].Process == process {
			return epoch <= s.held[i].Epoch
		}
	}
	return epoch <= e.Floor(int(process), s.Max)
}

// Order is the order of two events, as their stamps show it.
type Order int8

const (
	Before     Order = -1 // the first event is before the second in every replay
	Concurrent Order = 0  // either order is possible
	After      Order = 1
)

// Compare returns the order of two events of one run. Do not sort with Compare: of two events that
// are both concurrent with a third, one can be before the other. Package replay enumerates orders
// instead.
func Compare(a, b *Stamp, e *Epsilons) Order {
	// If neither stamp holds a process, each stamp knows the process up to Max − epsilon. So the
	// two Max values decide about this process.
	below, above := a.Max <= b.Max, b.Max <= a.Max
	wa := e.at(a.Max)
	wb := wa
	if a.Max != b.Max {
		wb = e.at(b.Max)
	}
	countBelow, countAbove := true, true
	for i, j := 0, 0; (i < len(a.held) || j < len(b.held)) && (below || above); {
		var x, y int64
		var countX, countY uint64
		switch {
		case j == len(b.held) || i < len(a.held) && a.held[i].Process < b.held[j].Process:
			k := &a.held[i]
			x, countX, y = k.Epoch, k.Counter, wb.floor(k.Process, b.Max)
			i++
		case i == len(a.held) || b.held[j].Process < a.held[i].Process:
			k := &b.held[j]
			y, countY, x = k.Epoch, k.Counter, wa.floor(k.Process, a.Max)
			j++
		default:
			k, l := &a.held[i], &b.held[j]
			x, countX, y, countY = k.Epoch, k.Counter, l.Epoch, l.Counter
			i, j = i+1, j+1
		}
		below, above = below && x <= y, above && y <= x
		countBelow, countAbove = countBelow && countX <= countY, countAbove && countY <= countX
	}
	if below && above { // the same is known of all processes
		below, above = countBelow && !countAbove, countAbove && !countBelow
	}
	switch {
	case below:
		return Before
	case above:
		return After
	}
	return Concurrent
}

// NewStamp makes a stamp from values that another program wrote. held must be sorted by process.
func NewStamp(greatest int64, held []Known) Stamp { return Stamp{Max: greatest, held: held} }
