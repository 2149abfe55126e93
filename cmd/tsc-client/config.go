package main

import (
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/daemon"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// config contains the values from the file, the environment and the flags. configs/tsc-client.yaml
// explains each key.
type config struct {
	Node      string `mapstructure:"node"`
	Probes    string `mapstructure:"probes"`
	Advertise string `mapstructure:"advertise"`

	Command           string `mapstructure:"command"`
	CommandKey        string `mapstructure:"command_key"`
	CommandClientKeys string `mapstructure:"command_client_keys"`

	Server    string `mapstructure:"server"`
	Key       string `mapstructure:"key"`
	ServerKey string `mapstructure:"server_key"`
	Role      string `mapstructure:"role"`

	TrainsPerSecond float64       `mapstructure:"trains_per_second"`
	CPUShare        float64       `mapstructure:"cpu_share"`
	BytesPerSecond  float64       `mapstructure:"bytes_per_second"`
	Target          time.Duration `mapstructure:"target"`

	UserStamps bool          `mapstructure:"user_stamps"`
	Spin       time.Duration `mapstructure:"spin"`

	WanderPPM          float64       `mapstructure:"wander_ppm"`
	Window             time.Duration `mapstructure:"window"`
	ExtrapolationLimit time.Duration `mapstructure:"extrapolation_limit"`

	SharedClock       string        `mapstructure:"shared_clock"`
	SharedClockName   string        `mapstructure:"shared_clock_name"`
	SharedClockError  time.Duration `mapstructure:"shared_clock_error"`
	SharedClockWander float64       `mapstructure:"shared_clock_wander_ppm"`

	Virtual string `mapstructure:"virtual"`
}

func (c config) sharedClock() daemon.SharedClock {
	return daemon.SharedClock{Source: c.SharedClock, Name: c.SharedClockName,
		Error: c.SharedClockError, Wander: c.SharedClockWander}
}

const virtualFlag = "virtual"

// addFlags adds a flag for each key. The flag has the key's name, with '-' for '_'.
func addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	d := tscclient.DefaultConfig()
	f.String("node", "", "the node's name (default: the host's)")
	f.String("probes", d.Listen.String(),
		"`address:port` at which probes are answered; port 0: any free port")
	f.String("advertise", "",
		"`address:port` at which other nodes reach --probes (default: chosen automatically)")
	f.String("command", "127.0.0.1:7340", "`address:port` for \"cprof relate\"; empty: none")
	f.String("command-key", "",
		"secret key `file` for --command, of role server: with it, --command may be any address")
	f.String("command-client-keys", "",
		"`directory` with the public keys (*.public) whose owners may use --command")
	f.String("server", "", "register with the tsc-server at this `host:port`")
	f.String("key", "", "this node's secret key `file`, of role node")
	f.String("server-key", "", "the server's public key `file`")
	f.String("role", "", "what this node is for: \"cprof find role=ROLE\" finds it")
	f.Float64("trains-per-second", d.Budget.TrainsPerSecond,
		"limit on the trains a second that the node begins by itself; 0: none")
	f.Float64("cpu-share", d.Budget.CPUShare,
		"share of one core that these trains may use; 0: no limit")
	f.Float64("bytes-per-second", d.Budget.BytesPerSecond,
		"bytes a second that these trains may send and receive; 0: no limit")
	f.Duration("target", d.Pace.Target,
		"half-width of a bound that is good enough; pairs with wider bounds are probed more often")
	f.Bool("user-stamps", false, "do not use the kernel's stamps")
	f.Duration("spin", 0,
		"how long to poll for the next probe before sleeping; polling occupies a core")
	f.Float64("wander-ppm", d.Assumptions.Wander.PPM(),
		"how far a pair's relative rate is assumed to move within the window, in ppm")
	f.Duration("window", d.Assumptions.Window,
		"half of the window: the time before and after a reading")
	f.Duration("extrapolation-limit", d.Assumptions.ExtrapolationLimit,
		"how long before the first train and after the last one readings can be translated")
	daemon.AddSharedClockFlags(cmd)
	f.String(virtualFlag, "", "be the virtual node that this `file` describes: for tests")
	_ = f.MarkHidden(virtualFlag) // no error: the flag exists
}

// check reports what is wrong with the configuration.
func (c *config) check() error {
	_, err := c.plan()
	return err
}

// A plan contains the values of a valid config, in the types of the packages that do the work.
type plan struct {
	client   tscclient.Config // without Node and Clock, which are measured later
	commands *control.ServerConfig
	link     *tscclient.LinkConfig
	virtual  *vnode.Config
}

func (c config) plan() (p plan, err error) {
	p.client = tscclient.DefaultConfig()
	if p.client.Listen, err = daemon.Address("probes", c.Probes); err != nil {
		return p, err
	}
	if c.Node != "" {
		if err := control.CheckName(c.Node); err != nil {
			return p, fmt.Errorf("node: %w", err)
		}
	}
	if err := daemon.CheckRole(c.Role); err != nil {
		return p, err
	}
	if err := c.sharedClock().Check(); err != nil {
		return p, err
	}
	p.client.Budget = tscclient.Budget{
		TrainsPerSecond: c.TrainsPerSecond, CPUShare: c.CPUShare, BytesPerSecond: c.BytesPerSecond,
	}
	p.client.Pace.Target = c.Target
	p.client.UserStamps, p.client.Manner.UserStamps = c.UserStamps, c.UserStamps
	p.client.AnswerSpin = c.Spin
	if c.Spin < 0 || c.Spin > time.Second {
		return p, fmt.Errorf("spin: %v is not between 0 and 1 s", c.Spin)
	}
	w := tscratio.Wander(c.WanderPPM * float64(tscratio.PPM))
	p.client.Assumptions = tscratio.Assumptions{
		Wander: w, MaxWander: 16 * w,
		Window: c.Window, ExtrapolationLimit: c.ExtrapolationLimit,
	}
	check := p.client // with an invented node: the real one is not measured yet
	check.Node = tscratio.Node{Name: "node", Nominal_hz: 1e9}
	check.Clock.Counter = func() uint64 { return 0 }
	if err := check.Validate(); err != nil {
		return p, err
	}
	if c.Command != "" {
		if _, _, err := net.SplitHostPort(c.Command); err != nil {
			return p, fmt.Errorf("command %q: want address:port: %w", c.Command, err)
		}
		commands, err := daemon.Listen(c.Command,
			daemon.Setting{Key: "command_key", Value: c.CommandKey},
			daemon.Setting{Key: "command_client_keys", Value: c.CommandClientKeys})
		if err != nil {
			return p, err
		}
		p.commands = &commands
	}
	if c.Server != "" {
		if c.Node != "" {
			if err := runs.CheckNodeName(c.Node); err != nil { // the server checks this, too
				return p, fmt.Errorf("node: %w", err)
			}
		}
		link, err := daemon.Link(c.Node, c.Server, c.Key, c.ServerKey, c.Advertise)
		if err != nil {
			return p, err
		}
		p.link = &link
	}
	if c.Virtual != "" {
		const maxVirtualBytes = 1 << 20
		text, err := plainfile.Read(c.Virtual, maxVirtualBytes)
		if err != nil {
			return p, fmt.Errorf("virtual: %w", err)
		}
		v, err := vnode.ParseConfig(text)
		if err != nil {
			return p, fmt.Errorf("virtual %q: %w", c.Virtual, err)
		}
		p.virtual = &v
	}
	return p, nil
}
