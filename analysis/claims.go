package analysis

import (
	"errors"
	"fmt"
	"io"

	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ntp"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// Claim is what a node's NTP daemon claimed between two readings of the node's counter: the node's
// clock is off UTC by at most Bound_ns. Bound_ns is |Offset_ns|, the daemon's estimate, plus the
// largest error of the estimate. Claims are a baseline for comparison; nothing else rests on them.
type Claim struct {
	CounterLo, CounterHi uint64
	Bound_ns             uint64
	Offset_ns            int64
	Synchronised         bool // false: the daemon claimed nothing
}

// maxClaims is the largest number of a node's claims that are read. A daemon that claims every
// second makes this number of claims in twelve days.
const maxClaims = 1 << 20

// Claims reads what a node's NTP daemon claimed during an epoch of a run, oldest first. The error
// wraps fs.ErrNotExist if no claims were stored. If the file is damaged, Claims returns what can be
// read and an error that wraps *logstore.CorruptionError.
func Claims(dir *runs.Directory, node, epoch string) ([]Claim, error) {
	file, err := dir.OpenBaseline(node)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	fail := func(err error) error { return fmt.Errorf("read baseline of node %q: %w", node, err) }
	reader, err := logstore.NewReader(file, file.Name())
	if err != nil {
		return nil, fail(err)
	}
	if reader.Header().Epoch != epoch {
		return nil,
			fail(fmt.Errorf("it is of epoch %q of the node, but epoch %q is compared",
				reader.Header().Epoch, epoch))
	}
	var claims []Claim
	var damage *logstore.CorruptionError
	for {
		block, err := reader.Next()
		var corruption *logstore.CorruptionError
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			if damage != nil {
				return claims, fail(damage)
			}
			return claims, nil
		case errors.As(err, &corruption):
			damage = corruption
			continue
		default:
			return claims, fail(err)
		}
		for _, row := range block.NTPs {
			c := Claim{CounterLo: row.CounterLo, CounterHi: row.CounterHi, Offset_ns: row.Offset_ns}
			c.Bound_ns, c.Synchronised = ntp.Claim{Offset_ns: row.Offset_ns,
				RootDelay_ns: row.RootDelay_ns, RootDispersion_ns: row.RootDispersion_ns,
				Stratum: row.Stratum, Leap: ntp.Leap(row.Leap)}.Bound_ns()
			claims = append(claims, c)
		}
		if len(claims) > maxClaims {
			return claims[:maxClaims],
				fail(fmt.Errorf("there are more than %d claims: the rest is not read",
					maxClaims))
		}
	}
}
