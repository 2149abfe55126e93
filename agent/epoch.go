package agent

import (
	"sync"
	"time"

	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/host"
)

// A full check of whether the counter ran unbroken takes a tenth of a millisecond. That is too long
// to do it before each block of a log. So the agent makes a full check only once every epochEvery.
// Before each block it only asks how long the machine has slept, which takes little time. If the
// machine has slept since the last full check, the agent makes a full check at once, so it notices
// a suspend at the next block. After a break of another kind, such as a migration, logs may stay in
// the old epoch for up to epochEvery.
const (
	epochEvery = 200 * time.Millisecond
	// sleepLeast_ns is the shortest sleep after which the agent makes a full check at once. An
	// epoch's name contains how long the machine has slept, rounded to steps, and sleepLeast_ns is
	// half of such a step.
	sleepLeast_ns = 8_000_000
)

// epochFollower follows the epoch of the node's counter. Any goroutine may use it.
type epochFollower struct {
	look  func() string         // makes the full check and returns the epoch
	slept func() (int64, error) // returns how long the machine has slept, which takes little time

	mu       sync.Mutex // protects the fields below it
	now      string
	seen     time.Time // the time of the last full check
	sleep_ns int64     // how long the machine had slept at the last full check
}

func newEpochs(c *Config) *epochFollower {
	e := &epochFollower{look: drain.BootEpoch, slept: host.SystemClocks().Slept_ns}
	switch {
	case c.Client != nil:
		e.look = func() string {
			if epoch, err := c.Client.Check(); err == nil {
				return epoch
			}
			return c.Client.Node().Epoch // the client knows of no break
		}
	case c.Epoch != "":
		e.look = func() string { return c.Epoch }
	}
	return e
}

// epoch returns the name of the present epoch of the node's counter, as in the headers of logs.
func (e *epochFollower) epoch() string {
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
