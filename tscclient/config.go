package tscclient

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Config configures a Client. DefaultConfig sets all fields except Node and Clock.
type Config struct {
	// Node is this node: its name and the properties of its counter. Identify measures them.
	Node tscratio.Node

	// Clock contains the node's clocks. Its field Counter is required. The client uses kernel
	// stamps only if the other fields are set, too.
	Clock minrtt.Clock

	// Epoch returns the present epoch of the counter. The client calls it before and after each
	// train. If the result changes, the client begins a new pair with every peer. If Epoch is nil,
	// the epoch is always Node.Epoch.
	Epoch func() (string, error)

	// Listen is the address at which the client answers probes. Port 0 means any free port.
	Listen netip.AddrPort

	// Secret is the secret from which Client.Key derives keys, until RenewSecret draws another one.
	// A server that commands the client adds secrets of its own. If Secret is zero, the client
	// answers any prober until a server adds a secret.
	Secret minrtt.Secret

	// AnswerSpin is how long, after each packet, the answerer polls for the next one before it
	// sleeps. While probes arrive, polling occupies a core. If the kernel does not stamp packets,
	// an answerer that polls stamps them tens of microseconds earlier than one that sleeps. If
	// AnswerSpin is 0, the answerer sleeps at once.
	AnswerSpin time.Duration

	// UserStamps makes the answerer take all stamps itself, without the kernel.
	UserStamps bool

	// HardwareInterface is the index of a network interface that stamps packets itself. The client
	// uses these stamps, too, and reads them with Clock.Hardware. If it is 0, the client uses no
	// such stamps.
	HardwareInterface int

	// Manner defines how trains are run, unless a call names another manner.
	Manner Manner

	// Assumptions are the assumptions of every pair.
	Assumptions tscratio.Assumptions

	// Budget and Pace limit the trains that the client runs on its own (SetPeers).
	Budget Budget
	Pace   Pace

	// MaxTrains is the number of trains that the client keeps for all peers together. Each train
	// takes some 500 bytes. If there are more trains, the client first drops pairs that got no
	// train for long, and then the oldest trains of the pair with the most trains.
	MaxTrains int
}

// Manner defines how a train is run.
type Manner struct {
	Exchanges  int           // number of exchanges after the warm-up
	Timeout    time.Duration // how long to wait for one answer
	Attempts   int           // how many missing answers in a row end the train
	Spin       time.Duration // how long to poll for an answer before sleeping
	UserStamps bool          // take all stamps without the kernel
}

// DefaultManner returns minrtt's defaults.
func DefaultManner() Manner {
	d := minrtt.DefaultConfig()
	return Manner{Exchanges: d.Exchanges, Timeout: d.Timeout, Attempts: d.Attempts}
}

// DefaultConfig returns a configuration with which a client answers only probes from this machine.
// To answer other machines, set Listen.
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
	// NewPair checks the assumptions and both nodes. To check this node, an invented second node is
	// enough.
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
	Key     minrtt.Key // the key with which this node must sign probes to the peer
}
