package drain

import (
	"errors"

	"github.com/cloudprofiler/cloudprofiler/ring"
)

// errorKind is a class of errors. The class of an error decides what the drainer does with the
// ring.
type errorKind int

const (
	none           errorKind = iota
	ofLog                    // the log cannot be written; try again
	temporaryError           // the system lacks something at the moment; try again
	untrustedRing            // the ring contradicts itself or cannot be trusted; set it aside
)

// logFailure is an error of the log.
type logFailure struct{ error }

func (f logFailure) Unwrap() error { return f.error }

// causeOf returns the class of an error. An unknown error is a temporaryError, so that the drainer
// tries again. The drainer must not set a healthy ring aside because the system lacks something for
// a moment.
func causeOf(err error) errorKind {
	var failure logFailure
	switch {
	case err == nil:
		return none
	case errors.As(err, &failure):
		return ofLog
	}
	for _, of := range []error{
		ring.ErrUntrusted, ring.ErrDamaged, ring.ErrVersion, ring.ErrShrunk,
	} {
		if errors.Is(err, of) {
			return untrustedRing
		}
	}
	return temporaryError
}
