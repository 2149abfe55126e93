package capture

import (
	"errors"
	"fmt"
	"strings"
)

// An Also says what is captured beside messages. Each choice makes programs a little slower.
type Also struct {
	Arrivals bool // when the kernel had a message ready for the program that received it
	Calls    bool // for how much of the time since then the program did something else
	Threads  bool // which thread let another one go on, and the beginnings and ends of threads
}

// ErrAlso is returned for a word that is not a field of Also.
var ErrAlso = errors.New("cannot be captured: use arrivals, calls and threads, separated by spaces")

// ParseAlso reads words such as "arrivals threads". An empty text chooses nothing. The word calls
// also chooses arrivals.
func ParseAlso(text string) (a Also, err error) {
	for _, word := range strings.Fields(text) {
		switch word {
		case "arrivals":
			a.Arrivals = true
		case "calls":
			a.Arrivals, a.Calls = true, true
		case "threads":
			a.Threads = true
		default:
			return a, fmt.Errorf("%q %w", word, ErrAlso)
		}
	}
	return a, nil
}

// needsUsers reports whether the programs in the kernel must know which processes use sockets.
func (a Also) needsUsers() bool { return a.Threads || a.Calls }
