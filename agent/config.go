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

// ErrConfig is returned for a configuration that cannot be used.
var ErrConfig = errors.New("bad configuration of the agent")

// Config says what an agent does. The zero value with State set works.
type Config struct {
	Node string // its name, as in a run; "": the host's
	// Rings is the directory of the rings. "" means $CLOUDPROFILER_DIR, or else one of this user's
	// in shared memory.
	Rings string
	State string // directory of logs and runs; "": the user's own

	Table   string // file with the handler table; "": the last one that a server sent, if any
	Workers int    // how many rings are drained at once; 0: one for every four cores

	MaxRunBytes     int64   // for the logs of a run, and for those of no run; 0: no limit
	MinFree         float64 // share of State's file system that must stay free, 0 to 1
	MaxProcessRings int     // for one process; 0: no limit
	MaxProcessBytes int64   // of shared memory, for one process; 0: no limit
	// KeepRuns is how many closed runs are kept. Opening another run removes older ones. 0 keeps
	// all.
	KeepRuns int

	Chrony string // address of chronyd; "": the usual one; "off": it is not asked
	Listen string // address:port for /metrics and /status; "": only the socket in Rings

	// Client is the node's part in measuring. It answers probes, and knows the node's epoch,
	// quantum and core slack for the headers of logs. The agent closes it. nil means that there is
	// none, and the fields below apply.
	Client *tscclient.Client

	// Observe reads the node's counter beside a clock, at both ends of a run. The mean rate in
	// between converts the run's cycles to seconds. nil: that is not measured.
	Observe func() (host.Observation, error)

	// These describe the node if there is no Client; see drain.Options.
	Epoch            string
	Quantum_cycles   uint64
	CoreSlack_cycles uint64

	// Server is the server that commands the agent. The agent sets its Handle and
	// Register.Capabilities. nil: there is none.
	Server *tscclient.LinkConfig

	// Notify is told once of everything that goes wrong or changes. Several goroutines call it.
	// nil: nobody is told.
	Notify func(error)

	// Fault is drain.Options.Fault. Tests use it to see what a death, or a disk that hangs, leaves.
	Fault func(drain.FaultPoint)
}

// ChronyOff is the address for no chrony daemon.
const ChronyOff = "off"

// DefaultConfig returns what cp-agent does by default.
func DefaultConfig() Config {
	return Config{
		MaxRunBytes: 100 << 30, MinFree: 0.05, MaxProcessRings: 4096, MaxProcessBytes: 16 << 30,
		KeepRuns: 10,
	}
}

const (
	claimPeriod  = time.Second      // between two questions to chrony during a run
	claimPatient = 10 * time.Second // the same without a run
)

// normalise fills in defaults and checks the rest.
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
		return c, fmt.Errorf("a server without a client that answers probes: set both: %w",
			ErrConfig)
	}
	if c.KeepRuns < 0 {
		return c, fmt.Errorf("keep_runs %d: use 0 or more: %w", c.KeepRuns, ErrConfig)
	}
	return c, nil
}

// DefaultState returns where an agent of this user keeps its data: below /var/lib/cloudprofiler for
// root, below $XDG_STATE_HOME or ~/.local/state for others.
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
