package agent

import (
	"sync"
	"time"

	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/host"
)

// A full check whether the counter ran on takes a tenth of a millisecond. That is too long before
// each block of a log. So a full check is made every epochEvery, and also whenever the machine has
// slept. A suspend is thus noticed at once. After another break, such as a migration, logs may stay
// in the old epoch for up to epochEvery.
const (
	epochEvery    = 200 * time.Millisecond
	sleepLeast_ns = 8_000_000 // half of the step of the sleep time in an epoch's name
)

// epochs follows the node's epoch. Any goroutine may use it.
type epochs struct {
	look  func() string         // makes the full check and returns the epoch
	slept func() (int64, error) // quick: how long the machine has slept

	mu       sync.Mutex // guards all below
	now      string
	seen     time.Time // when the last full check was made
	sleep_ns int64     // how long the machine had slept by then
}

func newEpochs(c *Config) *epochs {
	e := &epochs{look: drain.BootEpoch, slept: host.SystemClocks().Slept_ns}
	switch {
	case c.Client != nil:
		e.look = func() string {
			if epoch, err := c.Client.Check(); err == nil {
				return epoch
			}
			return c.Client.Node().Epoch // no break is known
		}
	case c.Epoch != "":
		e.look = func() string { return c.Epoch }
	}
	return e
}

// epoch returns the name of the present epoch of the node's counter, as in the headers of logs.
func (e *epochs) epoch() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	sleep_ns, err := e.slept()
	moved_ns := sleep_ns - e.sleep_ns
	if e.now == "" || err != nil || moved_ns >= sleepLeast_ns || moved_ns <= -sleepLeast_ns ||
		time.Since(e.seen) >= epochEvery {
		e.now, e.seen, e.sleep_ns = e.look(), time.Now(), sleep_ns
	}
	return e.now
}
