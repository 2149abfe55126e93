//go:build !amd64

package minrtt

// systemBracket returns nil: a bracket is made of two readings of the counter and one of the clock.
func systemBracket() func() (before_cycles uint64, realtime_ns int64, after_cycles uint64) {
	return nil
}
