package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/host"
	"github.com/cloudprofiler/cloudprofiler/ntp"
	"github.com/cloudprofiler/cloudprofiler/ring"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
)

// ErrConfig is returned for a configuration that cannot be worked with.
var ErrConfig = errors.New("bad configuration of the agent")

// Config says what an agent does. The zero value, with State set, works.
type Config struct {
	Node  string // its name, as in a run; "": the host's
	Rings string // directory of the rings; "": $CLOUDPROFILER_DIR, else one of this user's in shared memory
	State string // directory of logs and runs; "": the user's own

	Table   string // file with the handler table; "": the last one that a server sent, if any
	Workers int    // how many rings are drained at once; 0: one for every four cores

	MaxRunBytes     int64   // that the logs of a run may take, and those of no run; 0: no bound
	MinFree         float64 // part of State's file system that is to stay free, 0 to 1
	MaxProcessRings int     // that one process may have; 0: no bound
	MaxProcessBytes int64   // of shared memory that these may take; 0: no bound
	KeepRuns        int     // closed runs that are kept; older ones are removed when another is opened. 0: all

	Chrony string // address of chronyd; "": its usual one; "off": it is not asked
	Listen string // address:port for /metrics and /status; "": only the socket in Rings

	// Client is the node's part in measuring: it answers probes, and knows the node's epoch, quantum and core slack, for the headers of
	// logs. The agent closes it. nil: there is none, and the headers say what is below.
	Client *tscclient.Client

	// Observe looks at the node's counter beside a clock, at both ends of a run: the run's seconds are by
	// the mean rate in between. nil: that is not measured.
	Observe func() (host.Observation, error)

	// What is known of the node where there is no Client; see drain.Options.
	Epoch            string
	Quantum_cycles   uint64
	CoreSlack_cycles uint64

	// Server is who commands the agent; its Handle and Register.Capabilities are the agent's. nil: nobody.
	Server *tscclient.LinkConfig

	// Notify is told, once each, of what went wrong and of what changed. It is called from several goroutines. nil: nobody is.
	Notify func(error)

	// Fault is drain.Options.Fault: for tests of what a death, or a disk that hangs, leaves.
	Fault func(drain.FaultPoint)
}

// ChronyOff is the address of no chrony daemon.
const ChronyOff = "off"

// DefaultConfig is what cp-agent does unless it is told otherwise.
func DefaultConfig() Config {
	return Config{MaxRunBytes: 100 << 30, MinFree: 0.05, MaxProcessRings: 4096, MaxProcessBytes: 16 << 30, KeepRuns: 10}
}

const (
	claimPeriod  = time.Second      // between two questions to chrony during a run, and
	claimPatient = 10 * time.Second // while there is none
)

// normalise fills in what is left open and checks the rest.
func (c Config) normalise() (Config, error) {
	if c.Node == "" {
		name, err := os.Hostname()
		if err != nil {
			return c, fmt.Errorf("name of this node: set node: %w", err)
		}
		c.Node = name
	}
	if err := runs.CheckNodeName(c.Node); err != nil {
		return c, fmt.Errorf("set node: %w", err)
	}
	if c.Rings == "" {
		c.Rings = ring.DefaultDirectory()
	}
	if c.State == "" {
		dir, err := DefaultState()
		if err != nil {
			return c, err
		}
		c.State = dir
	}
	if c.Chrony == "" {
		c.Chrony = ntp.DefaultAddress
	}
	if c.Server != nil && c.Client == nil {
		return c, fmt.Errorf("a server without a client that answers probes: set both: %w", ErrConfig)
	}
	if c.KeepRuns < 0 {
		return c, fmt.Errorf("keep_runs %d: use 0 or more: %w", c.KeepRuns, ErrConfig)
	}
	return c, nil
}

// DefaultState is where an agent of this user keeps things: below /var/lib/cloudprofiler for root, below $XDG_STATE_HOME or ~/.local/state for others.
func DefaultState() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/lib/cloudprofiler/agent", nil
	}
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find a place for logs: set state: %w", err)
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "cloudprofiler", "agent"), nil
}
