package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/daemon"
)

// config contains the values from the file, the environment and the flags. configs/cp-agent.yaml
// explains each key.
type config struct {
	Node            string `mapstructure:"node"`
	User            string `mapstructure:"user"`
	Rings           string `mapstructure:"rings"`
	State           string `mapstructure:"state"`
	HandlerTable    string `mapstructure:"handler_table"`
	Workers         int    `mapstructure:"workers"`
	MaxRunBytes     string `mapstructure:"max_run_bytes"`
	MinFree         string `mapstructure:"min_free"`
	MaxProcessRings int    `mapstructure:"max_process_rings"`
	MaxProcessBytes string `mapstructure:"max_process_bytes"`
	KeepRuns        int    `mapstructure:"keep_runs"`
	Chrony          string `mapstructure:"chrony"`
	Metrics         string `mapstructure:"metrics"`
	Server          string `mapstructure:"server"`
	ServerKey       string `mapstructure:"server_key"`
	Key             string `mapstructure:"key"`
	Probes          string `mapstructure:"probes"`
	Advertise       string `mapstructure:"advertise"`
	Role            string `mapstructure:"role"`
	Capture         string `mapstructure:"capture"`
	CaptureOnly     string `mapstructure:"capture_only"`
	CaptureAlso     string `mapstructure:"capture_also"`
	CaptureLight    bool   `mapstructure:"capture_light"`

	SharedClock       string        `mapstructure:"shared_clock"`
	SharedClockName   string        `mapstructure:"shared_clock_name"`
	SharedClockError  time.Duration `mapstructure:"shared_clock_error"`
	SharedClockWander float64       `mapstructure:"shared_clock_wander_ppm"`

	HardwareStamps       string        `mapstructure:"hardware_stamps"`
	HardwareStampsError  time.Duration `mapstructure:"hardware_stamps_error"`
	HardwareStampsWander float64       `mapstructure:"hardware_stamps_wander_ppm"`
}

func (c config) sharedClock() daemon.SharedClock {
	return daemon.SharedClock{Source: c.SharedClock, Name: c.SharedClockName,
		Error: c.SharedClockError, Wander: c.SharedClockWander}
}

func (c config) hardwareStamps() daemon.HardwareStamps {
	return daemon.HardwareStamps{Interface: c.HardwareStamps, Error: c.HardwareStampsError,
		Wander: c.HardwareStampsWander}
}

// changed returns the keys whose values differ between two configurations.
func changed(x, y config) (keys []string) {
	for i, key := range daemon.Keys[config]() {
		if !reflect.ValueOf(x).Field(i).Equal(reflect.ValueOf(y).Field(i)) {
			keys = append(keys, key)
		}
	}
	return keys
}

// addFlags adds a flag for each key. The flag has the key's name, with '-' for '_'.
func addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	d := agent.DefaultConfig()
	flags.String("node", "", "the node's name, as results call it (default: the host's)")
	flags.String("user", "", "run as this user, if started by root")
	flags.String("rings", "",
		"directory of the rings (default: $CLOUDPROFILER_DIR, else this user's in /dev/shm)")
	flags.String("state", "", "directory of logs and runs (default: "+
		"/var/lib/cloudprofiler/agent, or ~/.local/state/cloudprofiler/agent)")
	flags.String("handler-table", "",
		"file that says which handler each channel gets; read again when it changes")
	flags.Int("workers", 0, "how many rings to drain at once (default: one for every four cores)")
	flags.String("max-run-bytes", "100GiB", "limit on the logs of a run; 0: no limit")
	flags.String("min-free", "5%", "share of the file system to leave free")
	flags.Int("max-process-rings", d.MaxProcessRings,
		"limit on the rings of one process; 0: no limit")
	flags.String("max-process-bytes", "16GiB",
		"limit on the shared memory of one process's rings; 0: no limit")
	flags.Int("keep-runs", d.KeepRuns, "how many runs to keep, the open one included; 0: all")
	flags.String("chrony", "", `address of chronyd, or "off" (default 127.0.0.1:323)`)
	flags.String("metrics", "", "address:port for /metrics and /status "+
		"(default: none; a socket in the rings' directory serves them)")
	flags.String("server", "", "host:port of the server that commands this agent (default: none)")
	flags.String("server-key", "", "file with the server's public key")
	flags.String("key", "", "file with this node's secret key")
	flags.String("probes", "",
		"address:port at which other nodes probe this node (default: on this machine, any port)")
	flags.String("advertise", "",
		"address:port at which other nodes reach --probes (default: the address of --probes)")
	addCaptureFlag(cmd)
	daemon.AddSharedClockFlags(cmd)
	daemon.AddHardwareStampsFlags(cmd)
	flags.String("role", "", "what this node is for: \"cprof find role=ROLE\" finds it")
}

// check reports what is wrong with the configuration.
func (c *config) check() error {
	_, err := c.agent()
	if err != nil || c.User == "" || os.Geteuid() != 0 {
		return err
	}
	for _, s := range []daemon.Setting{
		{Key: "key", Value: c.Key}, {Key: "server_key", Value: c.ServerKey},
		{Key: "handler_table", Value: c.HandlerTable},
	} {
		if s.Value != "" {
			err = errors.Join(err, daemon.ReadableBy(s, c.User))
		}
	}
	return err
}

// agent converts the configuration into that of package agent.
func (c config) agent() (agent.Config, error) {
	a := agent.Config{
		Node: c.Node, Rings: c.Rings, State: c.State, Table: c.HandlerTable,
		Workers: c.Workers, MaxProcessRings: c.MaxProcessRings, KeepRuns: c.KeepRuns,
		Chrony: c.Chrony, Listen: c.Metrics,
	}
	var err error
	size := func(key, text string) int64 {
		n, parseErr := channel.ParseCount(text)
		if parseErr != nil || n > 1<<62 {
			err = errors.Join(err,
				fmt.Errorf("%s %q: use a size such as 100GiB, below 4EiB, or 0 for no limit",
					key, text))
		}
		return int64(n)
	}
	a.MaxRunBytes = size("max_run_bytes", c.MaxRunBytes)
	a.MaxProcessBytes = size("max_process_bytes", c.MaxProcessBytes)
	a.MinFree, err = parseShare(c.MinFree, err)
	for key, n := range map[string]int{
		"workers": c.Workers, "max_process_rings": c.MaxProcessRings, "keep_runs": c.KeepRuns,
	} {
		if n < 0 {
			err = errors.Join(err, fmt.Errorf("%s %d: use 0 or more", key, n))
		}
	}
	if c.Server != "" {
		_, linkErr := daemon.Link(c.Node, c.Server, c.Key, c.ServerKey, c.Advertise)
		err = errors.Join(err, linkErr)
	}
	if c.Probes != "" {
		_, probesErr := daemon.Address("probes", c.Probes)
		err = errors.Join(err, probesErr)
	}
	err = errors.Join(err, daemon.CheckRole(c.Role), checkCapture(c), c.sharedClock().Check(),
		c.hardwareStamps().Check())
	if c.HandlerTable != "" {
		if _, statErr := os.Stat(c.HandlerTable); statErr != nil {
			err = errors.Join(err, fmt.Errorf("handler_table: %w", statErr))
		}
	}
	return a, err
}

// parseShare reads a share such as "5%" or "0.05". The parameter others holds the errors found so
// far. parseShare returns them, joined with a new error if the text is no share.
func parseShare(text string, others error) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || v < 0 || v >= 1 || v != v {
		return 0, errors.Join(others,
			fmt.Errorf("min_free %q: use a share such as 5%%, below 100%%", text))
	}
	return v, others
}
