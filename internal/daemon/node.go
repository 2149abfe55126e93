package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/host"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/overlay"
	"github.com/cloudprofiler/cloudprofiler/ring"
	"github.com/cloudprofiler/cloudprofiler/sharedclock"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
)

// A Node is this machine's node for a tscclient.Client. Close the client before the Node.
type Node struct {
	Facts host.Facts

	identity *tscclient.Identity
	notice   *minrtt.StepNotice
	shared   *sharedclock.Source // nil: none
	stamps   *sharedclock.Stamps // nil: none
}

// OpenNode measures this machine's node, which takes about a second. In a client's configuration,
// it sets the node, the epoch, the clock and a new secret for the keys of probes. An empty name
// means the host's name. If the counter jumps without a trace that other processes could find, the
// node stores its epoch in the directory rings, which is emptied at boot. If the argument rings is
// empty, the default directory is used.
func OpenNode(name, rings string, log *slog.Logger, c *tscclient.Config) (*Node, error) {
	if rings == "" {
		rings = ring.DefaultDirectory()
	}
	identity, err := tscclient.Identify(name, keptEpoch(rings, log))
	if err != nil {
		return nil, err
	}
	notice, err := minrtt.OpenStepNotice()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch the clock for steps: %w", err), identity.Close())
	}
	c.Node, c.Epoch = identity.Node, identity.Epoch
	c.Clock = minrtt.SystemClock(identity.Counter, notice, identity.RealtimeStep)
	c.Clock.Quantum_cycles = identity.Node.Quantum_cycles
	c.Secret = minrtt.NewSecret()
	return &Node{Facts: identity.Report.Facts, identity: identity, notice: notice}, nil
}

// epochFile is made when the counter has jumped without a trace. It contains the epoch that began
// then, and has a few hundred bytes.
const (
	epochFile     = "epoch"
	maxEpochBytes = 1 << 16
)

func keptEpoch(rings string, log *slog.Logger) tscclient.Kept {
	path := filepath.Join(rings, epochFile)
	return tscclient.Kept{
		Read: func() ([]byte, error) {
			err := ring.CheckDirectory(rings)
			var text []byte
			if err == nil {
				text, err = plainfile.ReadOwn(path, maxEpochBytes)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil, nil
			}
			return text, err
		},
		Write: func(text []byte) {
			if err := writeEpoch(rings, path, text); err != nil {
				log.Error("the counter was interrupted, and the name of "+
					"its new epoch is not stored",
					"error", err)
			}
		},
	}
}

func writeEpoch(rings, path string, text []byte) error {
	if len(text) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := ring.MakeDirectory(rings); err != nil {
		return err
	}
	return plainfile.Replace(path, text)
}

// Register returns the node's description of its machine. A server needs it.
func (n *Node) Register(program string) (control.Register, error) {
	facts, err := json.Marshal(n.Facts)
	if err != nil {
		return control.Register{}, fmt.Errorf("tell the server about this machine: %w", err)
	}
	f := n.identity.Report.Frequency
	return control.Register{
		Machine: n.Facts.MachineID, Cores: max(1, len(n.Facts.Cores.Allowed)),
		Software: Release(program), Facts: facts,
		Frequency: &control.Frequency{Lo_millihz: f.Lo_millihz, Hi_millihz: f.Hi_millihz,
			Clock: f.Clock},
	}, nil
}

// The facts that a node says about itself in the graph of a fleet begin with these texts.
const (
	factRole        = "role="
	factKernel      = "kernel="
	factClocksource = "clocksource="
)

// CheckRole returns an error if a text cannot be the role that a node says it has.
func CheckRole(role string) error {
	if len(role) > overlay.MaxFact-len(factRole) || strings.ContainsFunc(role, unicode.IsControl) {
		return fmt.Errorf("role %q: want at most %d bytes without control characters", role,
			overlay.MaxFact-len(factRole))
	}
	return nil
}

// Says returns what the node says about itself in the graph of a large fleet. If role is empty, the
// node does not say that it has a role.
func (n *Node) Says(role string) (facts []string) {
	for _, f := range [][2]string{
		{factRole, role}, {factKernel, n.Facts.Kernel}, {factClocksource, n.Facts.Clocksource},
	} {
		if f[1] != "" {
			facts = append(facts, f[0]+f[1])
		}
	}
	return facts
}

// Observe makes one observation of the machine's counter and epoch.
func (n *Node) Observe() (host.Observation, error) {
	return host.Observer{Root: os.DirFS("/"), Clocks: host.SystemClocks()}.Observe()
}

// Close stops watching the machine.
func (n *Node) Close() error {
	return errors.Join(n.identity.Close(), n.notice.Close(), n.closeShared())
}
