package drain

import (
	"errors"

	"github.com/cloudprofiler/cloudprofiler/ring"
)

// cause is what an error is about, which says what becomes of the ring.
type cause int

const (
	none    cause = iota
	ofLog         // the log cannot be written: it is tried again
	passing       // the system lacks something at the moment: it is tried again
	hostile       // the ring contradicts itself or is not to be trusted: it is set aside
)

// logFailure is an error of the log.
type logFailure struct{ error }

func (f logFailure) Unwrap() error { return f.error }

// causeOf takes an error for passing unless it is known to be something else: a healthy ring must
// not be given up for what the system lacks.
func causeOf(err error) cause {
	var failure logFailure
	switch {
	case err == nil:
		return none
	case errors.As(err, &failure):
		return ofLog
	}
	for _, of := range []error{ring.ErrUntrusted, ring.ErrDamaged, ring.ErrVersion, ring.ErrShrunk} {
		if errors.Is(err, of) {
			return hostile
		}
	}
	return passing
}
