package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/viper"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// config is what the file and the flags say. configs/tsc-server.yaml explains each key.
type config struct {
	Listen         string        `mapstructure:"listen"`
	Key            string        `mapstructure:"key"`
	ClientKeys     string        `mapstructure:"client_keys"`
	State          string        `mapstructure:"state"`
	Runs           string        `mapstructure:"runs"`
	Metrics        string        `mapstructure:"metrics"`
	SweepEvery     time.Duration `mapstructure:"sweep_every"`
	SweepTrains    int           `mapstructure:"sweep_trains"`
	SweepExchanges int           `mapstructure:"sweep_exchanges"`
	Width          int           `mapstructure:"width"`
	QuietLimit     time.Duration `mapstructure:"quiet_limit"`
	QuietBusy      float64       `mapstructure:"quiet_busy"`
	QuietBytes     uint64        `mapstructure:"quiet_bytes"`
	Budget         int           `mapstructure:"budget"`
	WanderPPM      float64       `mapstructure:"wander_ppm"`
	Window         time.Duration `mapstructure:"window"`
	Heartbeat      time.Duration `mapstructure:"heartbeat"`
	Dead           time.Duration `mapstructure:"dead"`
}

// addFlags gives each key a flag of its name, with '-' for '_'.
func addFlags(cmd *cobra.Command) {
	d := coordinator.DefaultConfig()
	f := cmd.Flags()
	f.String("listen", "127.0.0.1:7330", "address:port for clients; beyond this machine it needs keys")
	f.String("key", "", "file of the server's secret key")
	f.String("client-keys", "", "directory of the public keys (*.public) of those who are let in; looked at again as they come")
	f.String("state", "", "directory of what the server knows (default: /var/lib/cloudprofiler/server, or ~/.local/state/cloudprofiler/server)")
	f.String("runs", "", "directory of runs (default: runs/ below the state)")
	f.String("metrics", "", "address:port for Prometheus, at /metrics (default: none)")
	f.Duration("sweep-every", d.SweepEvery, "how often all pairs are measured while no run is open; 0: only when nodes come")
	f.Int("sweep-trains", d.Sweep.Trains, "trains of a sweep, in each direction of each pair")
	f.Int("sweep-exchanges", d.Sweep.Exchanges, "exchanges of each such train")
	f.Int("width", d.Sweep.Width, "pairs that are measured at one time; 0: as many as leave each node a core to itself")
	f.Duration("quiet-limit", d.Sweep.Quiet.Limit, "how long a quiet moment is waited for before each round; 0: nobody looks")
	f.Float64("quiet-busy", float64(d.Sweep.Quiet.Busy_ppm)/1e6, "part of its cores that a quiet node may use")
	f.Uint64("quiet-bytes", d.Sweep.Quiet.BytesASecond, "bytes a second that a quiet node may send or receive")
	f.Int("budget", d.Budget, "exchanges a second of the whole fleet while a run is open")
	f.Float64("wander-ppm", float64(d.Assumptions.Wander)/float64(tscratio.PPM), "how far the rate of two counters is assumed to move within the window, in 10⁻⁶")
	f.Duration("window", d.Assumptions.Window, "half of the window's length")
	f.Duration("heartbeat", d.Heartbeat, "how often clients show a sign of life")
	f.Duration("dead", d.Dead, "how long a silence ends a registration")
}

// readConfig reads the file, if there is one, and puts the flags that were given over it.
func readConfig(path string, cmd *cobra.Command) (config, error) {
	var c config
	v := viper.New()
	t := reflect.TypeFor[config]()
	for i := range t.NumField() {
		key := t.Field(i).Tag.Get("mapstructure")
		if err := v.BindPFlag(key, cmd.Flags().Lookup(strings.ReplaceAll(key, "_", "-"))); err != nil {
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
	if c.State == "" {
		c.State = defaultState()
	}
	if c.Runs == "" {
		c.Runs = filepath.Join(c.State, "runs")
	}
	if c.WanderPPM < 0 || c.WanderPPM > 1000 {
		return c, fmt.Errorf("wander_ppm %v: want 0 to 1000", c.WanderPPM)
	}
	if c.QuietBusy < 0 || c.QuietBusy > 1 {
		return c, fmt.Errorf("quiet_busy %v: want a part between 0 and 1", c.QuietBusy)
	}
	return c, c.coordinator().Validate()
}

func defaultState() string {
	if os.Geteuid() == 0 {
		return "/var/lib/cloudprofiler/server"
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local/state/cloudprofiler/server")
	}
	return "cloudprofiler-server"
}

// coordinator is the configuration as package coordinator has it.
func (c config) coordinator() coordinator.Config {
	d := coordinator.DefaultConfig()
	d.SweepEvery, d.Heartbeat, d.Dead, d.Budget = c.SweepEvery, c.Heartbeat, c.Dead, c.Budget
	d.Sweep.Trains, d.Sweep.Exchanges, d.Sweep.Width = c.SweepTrains, c.SweepExchanges, c.Width
	d.Sweep.Quiet.Limit, d.Sweep.Quiet.Busy_ppm, d.Sweep.Quiet.BytesASecond = c.QuietLimit, int64(c.QuietBusy*1e6), c.QuietBytes
	if c.QuietLimit == 0 {
		d.Sweep.Quiet.Over = 0
	}
	d.Assumptions.Wander = tscratio.Wander(c.WanderPPM * float64(tscratio.PPM))
	d.Assumptions.MaxWander = 16 * d.Assumptions.Wander
	d.Assumptions.Window = c.Window
	return d
}

// link is the configuration as package control has it. It reads the keys.
func (c config) link() (control.ServerConfig, error) {
	l := control.ServerConfig{Address: c.Listen}
	if c.Key == "" {
		return l, nil
	}
	key, err := control.ReadKey(c.Key)
	if err != nil {
		return l, err
	}
	if c.ClientKeys == "" {
		return l, fmt.Errorf("key %q is given without client_keys: nobody could come in", c.Key)
	}
	if _, err := os.Stat(c.ClientKeys); err != nil {
		return l, fmt.Errorf("client_keys: %w", err)
	}
	l.Key = &key
	l.Clients = func() ([]control.Key, error) { return control.ReadClientKeys(c.ClientKeys) }
	return l, nil
}
