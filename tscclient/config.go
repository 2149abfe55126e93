package tscclient

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Config is what a Client needs. DefaultConfig fills all but Node and Clock.
type Config struct {
	// Node is this node: its name, and what holds for readings of its counter. Identify finds that out.
	Node tscratio.Node

	// Clock is the node's clocks. Counter is required; kernel stamps are used only with the others.
	Clock minrtt.Clock

	// Epoch says in which epoch the counter is now. It is asked before each train; an answer other than the last begins new
	// pairs with every peer. Nil: that of Node, for ever.
	Epoch func() (string, error)

	// Listen is where probes are answered; port 0 takes a free one.
	Listen netip.AddrPort

	// Secret is what the keys are made from that Client.Key returns, until RenewSecret. A server
	// under whose command the client is put brings secrets of its own beside it. Zero: anybody's
	// probes are answered, until a server brings one.
	Secret minrtt.Secret

	// AnswerSpin is for how long the answerer polls after a packet before it sleeps. It burns a core while probes come, and
	// saves tens of microseconds where the kernel gives no stamps. 0: it sleeps at once.
	AnswerSpin time.Duration

	// UserStamps leaves the kernel's stamps off.
	UserStamps bool

	// Manner is how trains are run that are not asked for in another one.
	Manner Manner

	// Assumptions is what pairs are gathered under.
	Assumptions tscratio.Assumptions

	// Budget and Pace are for probing on its own (SetPeers).
	Budget Budget
	Pace   Pace

	// MaxTrains is how many trains are kept of all peers together, some 500 bytes each. The oldest of the largest pairs give way.
	MaxTrains int
}

// Manner is how a train is run.
type Manner struct {
	Exchanges  int           // after the warm-up
	Timeout    time.Duration // for one answer
	Attempts   int           // how many answers in a row may stay out before the train is given up
	Spin       time.Duration // for how long to poll for an answer before sleeping
	UserStamps bool          // leave the kernel's stamps off
}

// DefaultManner is minrtt's.
func DefaultManner() Manner {
	d := minrtt.DefaultConfig()
	return Manner{Exchanges: d.Exchanges, Timeout: d.Timeout, Attempts: d.Attempts}
}

// DefaultConfig returns a configuration that answers on this machine alone, until Listen says otherwise.
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

// Validate names the first field that nothing can be done with.
func (c Config) Validate() error {
	switch {
	case c.Node.Name == "":
		return errors.New("node: it has no name")
	case c.Clock.Counter == nil:
		return errors.New("clock: no counter given")
	case !c.Listen.IsValid():
		return errors.New("listen: no address given: 127.0.0.1:0 answers on this machine alone")
	case c.MaxTrains < minTrains:
		return fmt.Errorf("max trains: %d are less than %d", c.MaxTrains, minTrains)
	}
	// A pair with a node of another name shows whether assumptions and node are of use.
	other := tscratio.Node{Name: c.Node.Name + "'", NominalHz: 1e9}
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
	return minrtt.Config{Key: key, Exchanges: m.Exchanges, Timeout: m.Timeout, SlackCycles: slack_cycles, Attempts: m.Attempts}
}

// Peer is another node and where it answers.
type Peer struct {
	Node    tscratio.Node
	Address netip.AddrPort
	Key     minrtt.Key // that it takes probes of this node under
}
