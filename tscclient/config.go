package tscclient

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Config configures a Client. DefaultConfig fills all fields but Node and Clock.
type Config struct {
	// Node is this node: its name and the properties of its counter. Identify determines them.
	Node tscratio.Node

	// Clock contains the node's clocks. Counter is required. Kernel stamps are used only if the
	// other clocks are set, too.
	Clock minrtt.Clock

	// Epoch returns the present epoch of the counter. It is called before each train. When its
	// result changes, new pairs begin with every peer. Nil: the epoch is always that of Node.
	Epoch func() (string, error)

	// Listen is the address at which probes are answered. Port 0 means any free port.
	Listen netip.AddrPort

	// Secret is the basis of the keys that Client.Key returns, until RenewSecret. A server that
	// commands the client adds secrets of its own. Zero: the client answers any prober until a
	// server adds a secret.
	Secret minrtt.Secret

	// AnswerSpin is how long the answerer polls after a packet before it sleeps. Polling occupies a
	// core while probes arrive. It saves tens of microseconds if the kernel does not stamp packets.
	// 0: the answerer sleeps at once.
	AnswerSpin time.Duration

	// UserStamps turns the kernel's stamps off.
	UserStamps bool

	// Manner is how trains are run unless a call specifies another manner.
	Manner Manner

	// Assumptions are the assumptions of all pairs.
	Assumptions tscratio.Assumptions

	// Budget and Pace are for the client's own trains (SetPeers).
	Budget Budget
	Pace   Pace

	// MaxTrains is the number of trains that the client keeps for all peers together. Each train
	// takes some 500 bytes. The oldest trains of the largest pairs are dropped first.
	MaxTrains int
}

// Manner defines how a train is run.
type Manner struct {
	Exchanges  int           // after the warm-up
	Timeout    time.Duration // for one answer
	Attempts   int           // answers in a row that may be missing before the train is given up
	Spin       time.Duration // how long to poll for an answer before sleeping
	UserStamps bool          // turn the kernel's stamps off
}

// DefaultManner returns minrtt's defaults.
func DefaultManner() Manner {
	d := minrtt.DefaultConfig()
	return Manner{Exchanges: d.Exchanges, Timeout: d.Timeout, Attempts: d.Attempts}
}

// DefaultConfig returns a configuration that answers only on this machine, until Listen is changed.
func DefaultConfig() Config {
	return Config{
		Listen:      netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0),
		Manner:      DefaultManner(),
		Assumptions: tscratio.DefaultAssumptions(),
		Budget:      DefaultBudget(),
		Pace:        DefaultPace(),
		MaxTrains:   50_000,
	}
}

// Validate returns an error that names the first field with an unusable value.
func (c Config) Validate() error {
	switch {
	case c.Node.Name == "":
		return errors.New("node: it has no name: give one")
	case c.Clock.Counter == nil:
		return errors.New("clock: no counter given: set Clock.Counter")
	case !c.Listen.IsValid():
		return errors.New("listen: no address given: 127.0.0.1:0 answers only on this machine")
	case c.MaxTrains < minTrains:
		return fmt.Errorf("max trains: %d, want at least %d", c.MaxTrains, minTrains)
	}
	// A pair with a node of another name shows whether assumptions and node are valid.
	other := tscratio.Node{Name: c.Node.Name + "'", Nominal_hz: 1e9}
	if _, err := tscratio.NewPair(c.Node, other, c.Assumptions); err != nil {
		return err
	}
	if err := c.Manner.config(minrtt.Key{}, 0).Validate(); err != nil {
		return fmt.Errorf("manner: %w", err)
	}
	if err := c.Pace.Validate(); err != nil {
		return err
	}
	return c.Budget.Validate()
}

const minTrains = 100

func (m Manner) config(key minrtt.Key, slack_cycles uint64) minrtt.Config {
	return minrtt.Config{
		Key: key, Exchanges: m.Exchanges, Timeout: m.Timeout,
		Slack_cycles: slack_cycles, Attempts: m.Attempts,
	}
}

// Peer is another node and the address at which it answers.
type Peer struct {
	Node    tscratio.Node
	Address netip.AddrPort
	Key     minrtt.Key // the key under which it accepts this node's probes
}
