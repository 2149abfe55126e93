package generator

import (
	"syscall"
	"testing"
)

// If a signal ends a call, the call is made again. The Go runtime sends such signals.
func TestCallsThatSignalsEndAreMadeAgain(t *testing.T) {
	for _, want := range []error{nil, syscall.EADDRINUSE} {
		calls := 0
		err := retryInterrupted(func() (int, error) {
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
