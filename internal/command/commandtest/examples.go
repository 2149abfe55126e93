package commandtest

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

// Examples fails the test if an example in --help names a command or a flag that does not exist.
func Examples(t *testing.T, root *cobra.Command) {
	t.Helper()
	command.Prepare(root)
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Short == "" {
			t.Errorf("%s has no short description", cmd.CommandPath())
		}
		if cmd.Runnable() && !cmd.HasSubCommands() && cmd.Example == "" && cmd.Parent() == root &&
			cmd.Name() != "help" && !cmd.Hidden {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
			if words := strings.Fields(strings.Split(line, " | ")[0]); len(words) > 0 {
				checkExample(t, root, cmd, words)
			}
		}
		for _, sub := range cmd.Commands() {
			if sub.Name() != "completion" {
				walk(sub)
			}
		}
	}
	walk(root)
}

func checkExample(t *testing.T, root, cmd *cobra.Command, words []string) {
	if words[0] != root.Name() {
		return // this line is for the shell and not a command of cprof
	}
	found, rest, err := root.Find(words[1:])
	if err != nil || found.HasSubCommands() {
		t.Errorf("%s: example %q: no such command", cmd.CommandPath(), words)
		return
	}
	if found.DisableFlagParsing {
		return // another program reads the flags
	}
	if err := found.ParseFlags(rest); err != nil {
		t.Errorf("%s: example %q: %v", cmd.CommandPath(), words, err)
	}
}
