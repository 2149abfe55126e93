package minrtt

import (
	"fmt"
	"time"
)

// Config is what a Prober and an Answerer agree on, and what a Prober does. DefaultConfig fills all
// but Key.
type Config struct {
	// Key authenticates packets. It is made from a secret that the answerer accepts.
	Key Key

	// Exchanges is how many follow a train's warm-up.
	Exchanges int

	// Timeout is how long an answer is waited for.
	Timeout time.Duration

	// SlackCycles is by how much readings of one node may be in the wrong order: its core slack and
	// quantum, the larger of both nodes'. Stamps that contradict each other by more are refused as
	// impossible.
	SlackCycles uint64

	// Attempts is how many answers in a row may stay out before a train is given up.
	Attempts int
}

// DefaultConfig returns five exchanges after the warm-up, 100 ms for an answer and three attempts.
func DefaultConfig() Config {
	return Config{Exchanges: 5, Timeout: 100 * time.Millisecond, Attempts: 3}
}

// maxExchanges keeps a train far shorter than any window, even on slow links.
const maxExchanges = 1000

// maxTimeout is also how long an answerer takes a silent train for a live one.
const maxTimeout = time.Minute

// Validate names the first field that nothing can be done with.
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
