package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

// For each command that asks a server or nodes, or reads rings or runs, a flag overrides the
// environment variable of the same setting.
func TestPrecedence(t *testing.T) {
	variables := map[string]string{"server": "CLOUDPROFILER_SERVER", "key": "CLOUDPROFILER_KEY",
		"server-key": "CLOUDPROFILER_SERVER_KEY"}
	for _, name := range variables {
		t.Setenv(name, "environment")
	}
	rings := filepath.Join(t.TempDir(), "environment")
	t.Setenv("CLOUDPROFILER_DIR", rings)
	found := map[string]int{}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for flag, name := range variables {
			f := cmd.Flags().Lookup(flag)
			if f == nil {
				continue
			}
			found[flag]++
			before := f.Value.String()
			if err := cmd.ParseFlags([]string{"--" + flag, "flag"}); err != nil {
				t.Fatal(err)
			}
			if before != "environment" || f.Value.String() != "flag" ||
				!strings.Contains(f.Usage, "$"+name) {
				t.Errorf("%s: --%s is %q with $%s, then %q: %s", cmd.CommandPath(), flag, before,
					name, f.Value.String(), f.Usage)
			}
		}
		if f := cmd.Flags().Lookup("rings"); f != nil {
			found["rings"]++
			if f.DefValue != "" || !strings.Contains(f.Usage, "$CLOUDPROFILER_DIR") {
				t.Errorf("%s: --rings: %s", cmd.CommandPath(), f.Usage)
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
	for _, flag := range []string{"server", "key", "server-key", "rings"} {
		if found[flag] < 4 {
			t.Errorf("%d commands have --%s: the test does not see them", found[flag], flag)
		}
	}
	given := filepath.Join(t.TempDir(), "flag")
	for want, args := range map[string][]string{rings: nil, given: {"--rings", given}} {
		var out, errs bytes.Buffer
		Run(t.Context(), append([]string{"agent", "status"}, args...), &out, &errs)
		if !strings.Contains(errs.String(), want) {
			t.Errorf("%v: %s, want %q", args, errs.String(), want)
		}
	}
	t.Setenv("CLOUDPROFILER_RUNS", "environment")
	if command.RunsDir() != "environment" {
		t.Errorf("runs are in %q", command.RunsDir())
	}
}
