package ntp

import (
	"math"
	"net/netip"
	"time"
)

// Claim is an NTP daemon's report about the system clock at one moment.
type Claim struct {
	Offset_ns         int64  // estimated offset that still has to be added to the system clock
	RootDelay_ns      uint64 // round trip to the reference clock
	RootDispersion_ns uint64 // how far the estimate may be off, according to NTP
	Frequency_ppt     int64  // the clock's estimated rate error, parts per 10¹²
	Skew_ppt          uint64 // how far the estimate of the frequency may be off
	Stratum           uint64 // steps to the reference clock; 0: not synchronised
	Leap              Leap
	ReferenceID       uint64
	// the server that the daemon follows; zero if there is none, or if it is a reference clock
	Source  netip.Addr
	Updated time.Time // when the estimate was made; zero if never
}

// Leap is NTP's leap status. The numbers are stored in files.
type Leap uint64

const (
	LeapNone           Leap = 0
	LeapInsert         Leap = 1
	LeapDelete         Leap = 2
	LeapUnsynchronised Leap = 3
)

// Bound_ns returns how far the system clock may be from UTC according to the daemon's claim:
// |offset| + dispersion + delay/2, rounded up. ok is false if the daemon claims nothing because it
// follows no source.
func (c Claim) Bound_ns() (bound_ns uint64, ok bool) {
	if c.Leap >= LeapUnsynchronised || c.Stratum == 0 || c.Stratum > 15 {
		return 0, false
	}
	offset := uint64(max(c.Offset_ns, -c.Offset_ns))
	if c.Offset_ns == math.MinInt64 {
		offset = 1 << 63
	}
	bound_ns = offset
	for _, part := range []uint64{c.RootDispersion_ns, c.RootDelay_ns/2 + c.RootDelay_ns%2} {
		if bound_ns+part < bound_ns {
			return math.MaxUint64, true
		}
		bound_ns += part
	}
	return bound_ns, true
}
