package minrtt

import (
	"fmt"
	"time"
)

// Config contains what a Prober and its Answerer agree on, and the settings of the Prober.
// DefaultConfig fills all fields but Key.
type Config struct {
	// Key authenticates packets. It must be derived from a secret that the answerer accepts.
	Key Key

	// Exchanges is the number of exchanges after a train's warm-up.
	Exchanges int

	// Timeout is how long to wait for an answer.
	Timeout time.Duration

	// Slack_cycles is the largest difference by which readings of one node may be in the wrong
	// order: core slack plus quantum, of the node where they are larger. Stamps that contradict
	// each other by more are refused as impossible.
	Slack_cycles uint64

	// Attempts is the number of successive missing answers after which a train is given up.
	Attempts int
}

// DefaultConfig returns five exchanges after the warm-up, a timeout of 100 ms and three attempts.
func DefaultConfig() Config {
	return Config{Exchanges: 5, Timeout: 100 * time.Millisecond, Attempts: 3}
}

// maxExchanges keeps a train far shorter than any window, even on slow links.
const maxExchanges = 1000

// maxTimeout is also the time for which an answerer regards a silent train as alive.
const maxTimeout = time.Minute

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	switch {
	case c.Exchanges < 1 || c.Exchanges > maxExchanges:
		return fmt.Errorf("exchanges: %d is not between 1 and %d", c.Exchanges, maxExchanges)
	case c.Timeout < time.Millisecond || c.Timeout > maxTimeout:
		return fmt.Errorf("timeout: %v is not between 1 ms and 1 minute", c.Timeout)
	case c.Attempts < 1 || c.Attempts > 100:
		return fmt.Errorf("attempts: %d is not between 1 and 100", c.Attempts)
	}
	return nil
}
