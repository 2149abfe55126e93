package coordinator

import (
	"strings"
	"testing"
	"time"
)

// The server refuses a configuration that would make it send orders that all nodes refuse.
// Otherwise each sweep would lose every pair.
func TestConfigAsksForNoTrainThatNodesRefuse(t *testing.T) {
	for says, change := range map[string]func(*Config){
		"":                               func(*Config) {},
		"sweep: exchanges: 1001":         func(c *Config) { c.Sweep.Exchanges = 1001 },
		"sweep: exchanges: 0":            func(c *Config) { c.Sweep.Exchanges = 0 },
		"sweep: attempts: 101":           func(c *Config) { c.Sweep.Attempts = 101 },
		"sweep: timeout: 2m":             func(c *Config) { c.Sweep.Timeout = 2 * time.Minute },
		"train_exchanges: exchanges: 0":  func(c *Config) { c.TrainExchanges = 0 },
		"train_exchanges: exchanges: 10": func(c *Config) { c.TrainExchanges = 1001 },
		"no more than 100000 in all": func(c *Config) {
			c.Sweep.Trains, c.Sweep.Exchanges = 101, 1000
		},
	} {
		c := DefaultConfig()
		change(&c)
		err := c.Validate()
		if says == "" {
			if err != nil {
				t.Error(err)
			}
		} else if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q: %v", says, err)
		}
	}
}
