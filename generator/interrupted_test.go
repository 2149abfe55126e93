package generator

import (
	"syscall"
	"testing"
)

// A call that a signal ends, such as one of the runtime, is made again.
func TestCallsThatSignalsEndAreMadeAgain(t *testing.T) {
	for _, want := range []error{nil, syscall.EADDRINUSE} {
		calls := 0
		err := uninterrupted(func() (int, error) {
			if calls++; calls < 3 {
				return -1, syscall.EINTR
			}
			if want != nil {
				return -1, want
			}
			return 0, syscall.ENOENT // a stale errno
		})
		if err != want || calls != 3 {
			t.Errorf("%d calls, %v, want 3 and %v", calls, err, want)
		}
	}
}
