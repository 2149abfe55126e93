package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/command/commandtest"
	"github.com/cloudprofiler/cloudprofiler/internal/daemon"
	"github.com/cloudprofiler/cloudprofiler/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

func check(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = program.Run(t.Context(), append(args, "--check"), &out, &errs)
	return code, out.String(), errs.String()
}

func TestExampleConfigurationIsRead(t *testing.T) {
	dir := t.TempDir()
	key, err := control.NewKey("server", control.RoleServer)
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(dir, "server.secret")
	if err := key.Write(secret); err != nil {
		t.Fatal(err)
	}
	code, out, errs := check(t, "--config", "../../configs/tsc-server.yaml", "--key", secret,
		"--client-keys", dir)
	if code != 0 || !strings.Contains(out, "can be used") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}

func TestExampleConfigurationNamesEveryKey(t *testing.T) {
	text, err := os.ReadFile("../../configs/tsc-server.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range daemon.Keys[config]() {
		if !strings.Contains(string(text), "\n"+key+":") &&
			!strings.Contains(string(text), "\n# "+key+":") {
			t.Errorf("key %q is not in the example", key)
		}
	}
}

func TestPrecedence(t *testing.T) { commandtest.Precedence(t, program) }

func TestBadConfigurationIsNamed(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("lisen: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"lisen":        {"--config", bad},
		"nosuch":       {"--config", "nosuch.yaml"},
		"budget":       {"--budget", "0"},
		"dead":         {"--dead", "1ms"},
		"wander_ppm":   {"--wander-ppm", "-1"},
		"third_nodes":  {"--third-nodes", "all"},
		"quiet_busy":   {"--quiet-busy", "2"},
		"key":          {"--key", "nosuch.secret"},
		"without keys": {"--listen", "0.0.0.0:7330"},
		"unknown flag": {"--nosuch"},
	} {
		if code, _, errs := check(t, args...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%q: exit code %d, %s", args, code, errs)
		}
	}
}

// A server without keys accepts only connections from its own machine, and says so in its log.
func TestWithoutKeysItSaysSo(t *testing.T) {
	said, log := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- program.Run(ctx, []string{"--listen", "127.0.0.1:0", "--state", t.TempDir()},
			io.Discard, log)
		log.Close()
	}()
	warned := false
	for lines := bufio.NewScanner(said); lines.Scan(); {
		warned = warned || strings.Contains(lines.Text(), "level=WARN") &&
			strings.Contains(lines.Text(), "no keys: every program on this machine is let in")
		if strings.Contains(lines.Text(), "msg=listening") {
			stop()
		}
	}
	stop()
	if code := <-ended; code != 0 || !warned {
		t.Errorf("exit code %d, warned %v", code, warned)
	}
}
