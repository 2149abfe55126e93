//go:build !amd64

package minrtt

// systemBracket returns nil. On this architecture, separate calls read the counter, the clock and
// the counter again.
func systemBracket() func() (before_cycles uint64, realtime_ns int64, after_cycles uint64) {
	return nil
}
