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

// ErrConfig is returned for a configuration that the agent cannot use.
var ErrConfig = errors.New("bad configuration of the agent")

// Config configures an agent. A Config in which only State is set is valid.
type Config struct {
	Node string // the node's name, as in a run; "": the host's name
	// Rings is the directory of the rings. "" means $CLOUDPROFILER_DIR, or, if that is not set,
	// this user's directory in shared memory.
	Rings string
	State string // the directory of logs and runs; "": the default directory of this user

	Table   string // file with the handler table; "": the last table of a server, if any
	Workers int    // number of rings that the agent drains at once; 0: one for every four cores

	MaxRunBytes     int64   // most bytes of logs in a run, or in a time between runs; 0: no limit
	MinFree         float64 // share of State's file system that must stay free, 0 to 1
	MaxProcessRings int     // most rings of one process; 0: no limit
	MaxProcessBytes int64   // most shared memory in rings of one process; 0: no limit
	// KeepRuns is the number of runs that the agent keeps, including the open one. When a run is
	// opened, the agent removes the oldest closed runs. 0 keeps all runs.
	KeepRuns int

	Chrony string // address of chronyd; "": the usual one; "off": do not ask chronyd
	Listen string // address:port for /metrics and /status; "": only the socket in Rings

	// Client takes part in measurements for this node. It answers probes, and supplies the node's
	// epoch, quantum and core slack for the headers of logs. The agent closes Client. If Client is
	// nil, Epoch, Quantum_cycles and CoreSlack_cycles supply these values.
	Client *tscclient.Client

	// Observe reads the node's counter together with a clock. The agent calls it at the beginning
	// and at the end of a run. The mean rate between the two readings converts the run's cycles to
	// seconds. nil: the agent does not measure the rate.
	Observe func() (host.Observation, error)

	// Epoch, Quantum_cycles and CoreSlack_cycles describe the node if Client is nil: see
	// drain.Options.
	Epoch            string
	Quantum_cycles   uint64
	CoreSlack_cycles uint64

	// Server is the server that sends orders to the agent. The agent sets the fields Handle,
	// Facts, OpenRun and Register.Capabilities. nil: the agent has no server.
	Server *tscclient.LinkConfig

	// Facts are texts such as "role=worker", by which agents of a large fleet find this node. The
	// agent adds the node's channels to them: see tscclient.LinkConfig.
	Facts []string

	// Capture begins to capture the messages that programs exchange. What it captures goes to a
	// ring in the given directory. nil: this agent cannot capture.
	Capture func(rings string) (Capture, error)

	// Notify is called once for each failure or change. Several goroutines call it. nil: the agent
	// reports nothing.
	Notify func(error)

	// Fault becomes drain.Options.Fault. Tests use it to check what an agent leaves if it dies or
	// if the disk hangs.
	Fault func(drain.FaultPoint)
}

// ChronyOff is the value of Config.Chrony that makes the agent ask no chrony daemon.
const ChronyOff = "off"

// DefaultConfig returns the configuration that cp-agent uses by default.
func DefaultConfig() Config {
	return Config{
		MaxRunBytes: 100 << 30, MinFree: 0.05, MaxProcessRings: 4096, MaxProcessBytes: 16 << 30,
		KeepRuns: 10,
	}
}

const (
	claimPeriod  = time.Second      // the time between two requests to chrony during a run
	claimPatient = 10 * time.Second // the time between two requests to chrony without a run
)

// normalise fills in defaults and checks all other values.
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

// DefaultState returns the default directory for an agent's data: below /var/lib/cloudprofiler for
// root, and below $XDG_STATE_HOME or ~/.local/state for other users.
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
