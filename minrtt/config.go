package minrtt

import (
	"fmt"
	"time"
)

// Config contains the settings of a Prober. DefaultConfig sets all fields except Key and
// Slack_cycles.
type Config struct {
	// Key authenticates packets. It must be derived from a secret that the answerer accepts.
	Key Key

	// Exchanges is the number of exchanges in a train. The first exchange, which warms up, is not
	// included in this number.
	Exchanges int

	// Timeout is how long to wait for an answer.
	Timeout time.Duration

	// Slack_cycles is the most by which a later reading of one node may be smaller than an earlier
	// reading of the same node. For one node, this is the sum of its core slack and its quantum.
	// Set Slack_cycles to the larger one of the two nodes' sums. If stamps contradict each other by
	// more than this, the prober refuses them as impossible.
	Slack_cycles uint64

	// Attempts is the number of successive missing answers after which the prober gives up a train.
	Attempts int
}

// DefaultConfig returns five exchanges after the warm-up, a timeout of 100 ms and three attempts.
func DefaultConfig() Config {
	return Config{Exchanges: 5, Timeout: 100 * time.Millisecond, Attempts: 3}
}

// maxExchanges limits the length of a train, so that even on slow links a train takes far less time
// than any window for which package tscratio computes a relation.
const maxExchanges = 1000

// maxTimeout is the longest Timeout. An answerer also regards a silent train as alive for this
// time.
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
