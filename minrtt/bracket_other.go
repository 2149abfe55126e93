//go:build !amd64

package minrtt

// systemBracket returns nil: on this architecture a bracket consists of two separate readings of
// the counter and one of the clock.
func systemBracket() func() (before_cycles uint64, realtime_ns int64, after_cycles uint64) {
	return nil
}
