package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/viper"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// config is what the file, the environment and the flags say. configs/tsc-client.yaml explains each key.
type config struct {
	Name      string `mapstructure:"name"`
	Listen    string `mapstructure:"listen"`
	Advertise string `mapstructure:"advertise"`

	Command           string `mapstructure:"command"`
	CommandKey        string `mapstructure:"command_key"`
	CommandClientKeys string `mapstructure:"command_client_keys"`

	Server    string `mapstructure:"server"`
	Key       string `mapstructure:"key"`
	ServerKey string `mapstructure:"server_key"`

	TrainsPerSecond float64       `mapstructure:"trains_per_second"`
	CPUShare        float64       `mapstructure:"cpu_share"`
	BytesPerSecond  float64       `mapstructure:"bytes_per_second"`
	Target          time.Duration `mapstructure:"target"`

	UserStamps bool          `mapstructure:"user_stamps"`
	Spin       time.Duration `mapstructure:"spin"`

	WanderPPM          float64       `mapstructure:"wander_ppm"`
	Window             time.Duration `mapstructure:"window"`
	ExtrapolationLimit time.Duration `mapstructure:"extrapolation_limit"`

	Virtual string `mapstructure:"virtual"`
}

const virtualFlag = "virtual"

// addFlags gives each key a flag of its name, with '-' for '_'.
func addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	d := tscclient.DefaultConfig()
	f.String("name", "", "the node's name (default: the host's)")
	f.String("listen", d.Listen.String(), "`address:port` where probes are answered; port 0 takes a free one")
	f.String("advertise", "", "`address:port` where others reach that (default: found out)")
	f.String("command", "127.0.0.1:7340", "`address:port` for \"cprof relate\"; empty: none")
	f.String("command-key", "", "secret key `file` of that port, of role server: with it, it may be on any address")
	f.String("command-client-keys", "", "`directory` with the public keys (*.public) of those who may command")
	f.String("server", "", "register with the tsc-server at this `host:port`")
	f.String("key", "", "this node's secret key `file`, of role node")
	f.String("server-key", "", "the server's public key `file`")
	f.Float64("trains-per-second", d.Budget.TrainsPerSecond, "most trains that the node begins by itself; 0: none")
	f.Float64("cpu-share", d.Budget.CPUShare, "most of one core that they take; 0: no limit")
	f.Float64("bytes-per-second", d.Budget.BytesPerSecond, "most that they send and receive; 0: no limit")
	f.Duration("target", d.Pace.Target, "half-width of a bound that is good enough: wider ones are probed more")
	f.Bool("user-stamps", false, "leave the kernel's stamps off")
	f.Duration("spin", 0, "poll for so long for the next probe before sleeping; burns a core")
	f.Float64("wander-ppm", d.Assumptions.Wander.PPM(), "how far a pair's relative rate is assumed to move within the window, in ppm")
	f.Duration("window", d.Assumptions.Window, "the window, to either side")
	f.Duration("extrapolation-limit", d.Assumptions.ExtrapolationLimit, "how far beyond the first and the last train readings are translated")
	f.String(virtualFlag, "", "be the virtual node that this `file` describes: for tests")
	_ = f.MarkHidden(virtualFlag) // it is there
}

// readConfig reads the file, if there is one, and puts the environment and the flags over it.
func readConfig(path string, cmd *cobra.Command) (config, error) {
	var c config
	v := viper.New()
	v.SetEnvPrefix("TSC_CLIENT")
	for _, key := range keys() {
		err := errors.Join(v.BindPFlag(key, cmd.Flags().Lookup(strings.ReplaceAll(key, "_", "-"))), v.BindEnv(key))
		if err != nil {
			return c, err
		}
	}
	if path != "" {
		v.SetConfigFile(path)
		v.SetConfigType("yaml")
		if err := v.ReadInConfig(); err != nil {
			return c, fmt.Errorf("read configuration: %w", err)
		}
	}
	if err := v.UnmarshalExact(&c); err != nil {
		return c, fmt.Errorf("read configuration %q: %w", path, err)
	}
	_, err := c.plan()
	return c, err
}

// keys are those of the configuration, as its file has them.
func keys() (all []string) {
	t := reflect.TypeFor[config]()
	for i := range t.NumField() {
		all = append(all, t.Field(i).Tag.Get("mapstructure"))
	}
	return all
}

// A plan is a configuration that was looked at.
type plan struct {
	client   tscclient.Config // without node and clock
	commands *control.ServerConfig
	link     *tscclient.LinkConfig
	virtual  *vnode.Config
}

func (c config) plan() (p plan, err error) {
	p.client = tscclient.DefaultConfig()
	if p.client.Listen, err = address("listen", c.Listen); err != nil {
		return p, err
	}
	if c.Name != "" {
		if err := control.CheckName(c.Name); err != nil {
			return p, err
		}
	}
	p.client.Budget = tscclient.Budget{TrainsPerSecond: c.TrainsPerSecond, CPUShare: c.CPUShare, BytesPerSecond: c.BytesPerSecond}
	p.client.Pace.Target = c.Target
	p.client.UserStamps, p.client.Manner.UserStamps, p.client.AnswerSpin = c.UserStamps, c.UserStamps, c.Spin
	if c.Spin < 0 || c.Spin > time.Second {
		return p, fmt.Errorf("spin: %v is not between 0 and 1 s", c.Spin)
	}
	w := tscratio.Wander(c.WanderPPM * float64(tscratio.PPM))
	p.client.Assumptions = tscratio.Assumptions{Wander: w, Window: c.Window, ExtrapolationLimit: c.ExtrapolationLimit, MaxWander: 16 * w}
	check := p.client // with a node that stands for the one to be measured
	check.Node, check.Clock.Counter = tscratio.Node{Name: "node", NominalHz: 1e9}, func() uint64 { return 0 }
	if err := check.Validate(); err != nil {
		return p, err
	}
	if c.Command != "" {
		if p.commands, err = c.commandServer(); err != nil {
			return p, err
		}
	}
	if c.Server != "" {
		if p.link, err = c.serverLink(); err != nil {
			return p, err
		}
	}
	if c.Virtual != "" {
		text, err := os.ReadFile(c.Virtual)
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

func address(key, text string) (netip.AddrPort, error) {
	a, err := netip.ParseAddrPort(text)
	if err != nil {
		return a, fmt.Errorf("%s %q: want an IP address and a port, as 127.0.0.1:7341 or 0.0.0.0:7341", key, text)
	}
	return a, nil
}

func (c config) commandServer() (*control.ServerConfig, error) {
	if _, _, err := net.SplitHostPort(c.Command); err != nil {
		return nil, fmt.Errorf("command %q: want address:port: %w", c.Command, err)
	}
	s := &control.ServerConfig{Address: c.Command}
	if (c.CommandKey == "") != (c.CommandClientKeys == "") {
		return nil, errors.New("command_key and command_client_keys: give both, or neither: the one says who this node is, the other who may command it")
	}
	if c.CommandKey == "" {
		return s, nil
	}
	key, err := control.ReadKey(c.CommandKey)
	if err != nil {
		return nil, fmt.Errorf("command_key: %w", err)
	}
	if _, err := os.Stat(c.CommandClientKeys); err != nil {
		return nil, fmt.Errorf("command_client_keys: %w", err)
	}
	s.Key, s.Clients = &key, func() ([]control.Key, error) { return control.ReadClientKeys(c.CommandClientKeys) }
	return s, nil
}

func (c config) serverLink() (*tscclient.LinkConfig, error) {
	l := &tscclient.LinkConfig{Server: control.ClientConfig{Server: c.Server}}
	if c.Advertise != "" {
		var err error
		if l.Advertise, err = address("advertise", c.Advertise); err != nil {
			return nil, err
		}
	}
	if (c.Key == "") != (c.ServerKey == "") {
		return nil, errors.New("key and server_key: give both, or neither: the one says who this node is, the other who the server is")
	}
	if c.Key == "" {
		return l, nil
	}
	own, err := control.ReadKey(c.Key)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	server, err := control.ReadKey(c.ServerKey)
	if err != nil {
		return nil, fmt.Errorf("server_key: %w", err)
	}
	l.Server.Key, l.Server.Public = &own, server.Public
	return l, nil
}
