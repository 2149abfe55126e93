package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/command/commandtest"
	"github.com/cloudprofiler/cloudprofiler/internal/daemon"
)

// load returns the configuration with which tsc-client would serve, or the error that prevents it.
func load(t *testing.T, args ...string) (got config, err error) {
	t.Helper()
	d := program
	d.Serve = func(_ context.Context, s daemon.Start[config]) error {
		got = s.Config
		return nil
	}
	var stderr bytes.Buffer
	if d.Run(t.Context(), args, io.Discard, &stderr) != 0 {
		err = errors.New(stderr.String())
	}
	return got, err
}

// The example file contains every key with its default.
func TestExampleConfigurationIsTheDefault(t *testing.T) {
	example, err := load(t, "--config", "../../configs/tsc-client.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defaults, err := load(t)
	if err != nil {
		t.Fatal(err)
	}
	if example != defaults {
		t.Errorf("the example is %+v\nthe default %+v", example, defaults)
	}
	text, err := os.ReadFile("../../configs/tsc-client.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range daemon.Keys[config]() {
		if key != virtualFlag && !strings.Contains(string(text), "\n"+key+":") &&
			!strings.Contains(string(text), "\n# "+key+":") {
			t.Errorf("the example does not explain %q", key)
		}
	}
}

func TestPrecedence(t *testing.T) { commandtest.Precedence(t, program) }

func TestConfigurationIsRefusedByName(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	key, err := control.NewKey("n", control.RoleNode)
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(dir, "n.secret")
	if err := key.Write(secret); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"no such file":                       {"--config", filepath.Join(dir, "none")},
		`line 1: there is no key "nonsense"`: {"--config", write("a", "nonsense: 1\n")},
		"yaml":                               {"--config", write("b", "node: [\n")},
		"probes":                             {"--probes", "here"},
		"command":                            {"--command", "7340"},
		"node":                               {"--node", "a b"},
		"check node name":                    {"--node", "höhe", "--server", "127.0.0.1:1"},
		"window":                             {"--window", "0s"},
		"wander":                             {"--wander-ppm", "-1"},
		"budget":                             {"--cpu-share", "2"},
		"pace":                               {"--target", "0s"},
		"spin":                               {"--spin", "1h"},
		"command_client_keys":                {"--command-key", secret},
		"server_key":                         {"--server", "x:1", "--key", secret},
		"no such file or directory": {
			"--command-key", secret, "--command-client-keys", "/nonexistent"},
		"role":      {"--role", strings.Repeat("r", 124)},
		"advertise": {"--server", "x:1", "--advertise", "x"},
		"virtual":   {"--virtual", write("v", "{}")},
	} {
		if c, err := load(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q; %+v", args, err, want, c)
		}
	}
}

func TestCommandLine(t *testing.T) {
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--help"}, 0, "tsc-client --config"},
		{[]string{"--check"}, 0, "can be used"},
		{[]string{"--check", "--probes", "x"}, 2, "want an IP address and a port"},
		{[]string{"--nonsense"}, 2, "unknown flag"},
		{[]string{"argument"}, 2, `unexpected argument "argument"`},
		{[]string{"--check", "--command", "192.0.2.9:1"}, 2, "without keys"},
		{[]string{"--check", "--server", "192.0.2.9:1"}, 2, "without keys"},
	} {
		var out bytes.Buffer
		code := program.Run(t.Context(), tc.args, &out, &out)
		if code != tc.code || !strings.Contains(out.String(), tc.want) {
			t.Errorf("%v: exit code %d, want %d: %s", tc.args, code, tc.code, out.String())
		}
	}
}
