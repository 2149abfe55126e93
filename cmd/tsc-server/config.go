package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/internal/daemon"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// config contains the values from the file, the environment and the flags. configs/tsc-server.yaml
// explains each key.
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
	SweepWidth     int           `mapstructure:"sweep_width"`
	QuietLimit     time.Duration `mapstructure:"quiet_limit"`
	QuietBusy      float64       `mapstructure:"quiet_busy"`
	QuietBytes     uint64        `mapstructure:"quiet_bytes"`
	AllPairs       int           `mapstructure:"all_pairs"`
	Neighbours     int           `mapstructure:"neighbours"`
	Budget         int           `mapstructure:"budget"`
	Collectors     []string      `mapstructure:"collectors"`
	WanderPPM      float64       `mapstructure:"wander_ppm"`
	Window         time.Duration `mapstructure:"window"`
	ThirdNodes     string        `mapstructure:"third_nodes"`
	Heartbeat      time.Duration `mapstructure:"heartbeat"`
	Dead           time.Duration `mapstructure:"dead"`
}

// addFlags adds a flag for each key. The flag has the key's name, with '-' for '_'.
func addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	d := coordinator.DefaultConfig()
	f.String("listen", "127.0.0.1:7330",
		"address:port for clients; an address outside this machine needs keys")
	f.String("key", "", "file of the server's secret key")
	f.String("client-keys", "", "directory of the accepted public keys (*.public); "+
		"to shut a client out, remove its key")
	f.String("state", "", "directory of the server's data (default: "+
		"/var/lib/cloudprofiler/server, or ~/.local/state/cloudprofiler/server)")
	f.String("runs", "", "directory of runs (default: runs/ in --state)")
	f.String("metrics", "", "address:port for Prometheus, at /metrics (default: none)")
	f.Duration("sweep-every", d.SweepEvery,
		"how often to measure all pairs while no run is open; 0: only when nodes join")
	f.Int("sweep-trains", d.Sweep.Trains, "trains of a sweep, in each direction of each pair")
	f.Int("sweep-exchanges", d.Sweep.Exchanges, "exchanges of each train of a sweep")
	f.Int("sweep-width", d.Sweep.Width,
		"pairs to measure at once; 0: as many as possible while each node has a core for itself")
	f.Duration("quiet-limit", d.Sweep.Quiet.Limit,
		"how long to wait for a quiet moment before each round; 0: do not check loads")
	f.Float64("quiet-busy", float64(d.Sweep.Quiet.Busy_ppm)/1e6,
		"share of its cores that a quiet node may use")
	f.Uint64("quiet-bytes", d.Sweep.Quiet.BytesASecond,
		"bytes a second that a quiet node may send or receive")
	f.Int("all-pairs", d.AllPairs, "size of the largest fleet in which all pairs are measured")
	f.Int("neighbours", d.Degree, "how many others each node of a larger fleet measures")
	f.Int("budget", d.Budget, "exchanges a second of the whole fleet while a run is open; "+
		"in a fleet larger than --all-pairs, of as many nodes")
	f.StringSlice("collectors", nil, "nodes of a fleet larger than --all-pairs "+
		"that fetch the logs of the others when a run ends")
	f.Float64("wander-ppm", float64(d.Assumptions.Wander)/float64(tscratio.PPM),
		"how far the relative rate of two counters is assumed to move within the window, in ppm")
	f.Duration("window", d.Assumptions.Window,
		"half of the window: the time before and after a reading")
	f.String("third-nodes", d.ThirdNodes.String(),
		"let other nodes narrow the bound of two: agreed (as far as two others agree), any or none")
	f.Duration("heartbeat", d.Heartbeat, "how often clients send a ping")
	f.Duration("dead", d.Dead, "how long a client may be silent before it loses its registration")
}

// check sets the directories that the configuration does not name, and reports what is wrong with
// the configuration.
func (c *config) check() error {
	if c.State == "" {
		c.State = defaultState()
	}
	if c.Runs == "" {
		c.Runs = filepath.Join(c.State, "runs")
	}
	if c.WanderPPM < 0 || c.WanderPPM > 1000 {
		return fmt.Errorf("wander_ppm %v: want 0 to 1000", c.WanderPPM)
	}
	var third tscratio.ThirdNodes
	if err := third.UnmarshalText([]byte(c.ThirdNodes)); err != nil {
		return fmt.Errorf("third_nodes: %w", err)
	}
	if c.QuietBusy < 0 || c.QuietBusy > 1 {
		return fmt.Errorf("quiet_busy %v: want a share between 0 and 1", c.QuietBusy)
	}
	if err := c.coordinator().Validate(); err != nil {
		return err
	}
	_, err := c.link()
	return err
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

// coordinator converts the configuration into that of package coordinator.
func (c config) coordinator() coordinator.Config {
	d := coordinator.DefaultConfig()
	d.AllPairs, d.Degree, d.Collectors = c.AllPairs, c.Neighbours, c.Collectors
	d.SweepEvery, d.Heartbeat, d.Dead, d.Budget = c.SweepEvery, c.Heartbeat, c.Dead, c.Budget
	d.Sweep.Trains, d.Sweep.Exchanges, d.Sweep.Width = c.SweepTrains, c.SweepExchanges, c.SweepWidth
	d.Sweep.Quiet.Limit, d.Sweep.Quiet.BytesASecond = c.QuietLimit, c.QuietBytes
	d.Sweep.Quiet.Busy_ppm = int64(c.QuietBusy * 1e6)
	if c.QuietLimit == 0 {
		d.Sweep.Quiet.Over = 0
	}
	d.Assumptions.Wander = tscratio.Wander(c.WanderPPM * float64(tscratio.PPM))
	d.Assumptions.MaxWander = 16 * d.Assumptions.Wander
	d.Assumptions.Window = c.Window
	_ = d.ThirdNodes.UnmarshalText([]byte(c.ThirdNodes)) // check has reported an error
	return d
}

// link converts the configuration into that of the link (package control). It reads the keys from
// their files.
func (c config) link() (control.ServerConfig, error) {
	return daemon.Listen(c.Listen,
		daemon.Setting{Key: "key", Value: c.Key},
		daemon.Setting{Key: "client_keys", Value: c.ClientKeys})
}
