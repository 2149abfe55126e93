package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// toyRoot returns a command with one subcommand for each way to end, and with a group.
func toyRoot() *cobra.Command {
	ending := func(name string, end func(ctx context.Context) error) *cobra.Command {
		cmd := &cobra.Command{Use: name, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				fmt.Fprintln(cmd.OutOrStdout(), "ran "+name)
				return end(cmd.Context())
			}}
		cmd.Flags().Int("count", 1, "")
		return cmd
	}
	root := &cobra.Command{Use: "cprof"}
	bench := &cobra.Command{Use: "bench"}
	bench.AddCommand(ending("log", func(context.Context) error { return nil }))
	two := ending("two BEFORE AFTER...", func(context.Context) error { return nil })
	two.Args = cobra.MinimumNArgs(2)
	root.AddCommand(
		bench,
		two,
		ending("answer", func(context.Context) error { return nil }),
		ending("fail", func(context.Context) error { return errors.New("open ring \"x\": gone") }),
		ending("misuse",
			func(context.Context) error { return Usagef("--a and --b exclude each other") }),
		ending("part",
			func(context.Context) error { return fmt.Errorf("node \"n3\": %w", ErrPartial) }),
		ending("wait", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }),
	)
	return root
}

func TestExitCodes(t *testing.T) {
	tests := map[string]struct {
		args     string
		code     int
		out, err string // texts that the output must contain
	}{
		"answered":             {"answer", 0, "ran answer", ""},
		"answered in a group":  {"bench log", 0, "ran log", ""},
		"failed":               {"fail", 1, "ran fail", `cprof: open ring "x": gone`},
		"usage by the command": {"misuse", 2, "ran misuse", `see "cprof misuse --help"`},
		"suspect": {"part", 3, "ran part",
			`cprof: node "n3": answered with suspect`},
		"cancelled":          {"wait", 1, "ran wait", "cprof: context canceled"},
		"unknown flag":       {"answer --nosuch", 2, "", "unknown flag: --nosuch"},
		"misspelt flag":      {"answer --cuont 2", 2, "", "--cuont: did you mean --count?\n"},
		"bad flag value":     {"answer --count=x", 2, "", `see "cprof answer --help"`},
		"too many arguments": {"answer more", 2, "", `cprof: unexpected argument "more"`},
		"no argument":        {"two", 2, "", "cprof: BEFORE is missing\n"},
		"too few arguments":  {"two one", 2, "", "cprof: AFTER is missing\n"},
		"enough arguments":   {"two one two three", 0, "ran two", ""},
		"unknown command": {"anwser", 2, "",
			`unknown command "anwser", did you mean "answer"?`},
		"unknown, nothing near": {"zzzzzzzz", 2, "", `unknown command "zzzzzzzz"`},
		"unknown with a flag":   {"anwser --json", 2, "", `did you mean "answer"?`},
		"unknown in a group": {"bench lgo", 2, "",
			`unknown command "lgo", did you mean "log"?`},
		"unknown in group, flag":  {"bench lgo --json", 2, "", `did you mean "log"?`},
		"unknown flag of a group": {"bench --nosuch", 2, "", "unknown flag: --nosuch"},
		"nothing":                 {"", 2, "", "a command is missing"},
		"a group alone": {"bench", 2, "", "cprof: a command is missing\nsee \"cprof " +
			"bench --help\""},
		"help":                      {"--help", 0, "Available Commands", ""},
		"help of a command":         {"help bench log", 0, "cprof bench log", ""},
		"help of an unknown one":    {"help nosuch", 2, "", "no help on"},
		"help of a group's unknown": {"help bench nosuch", 2, "", "no help on"},
		"completion":                {"completion bash", 0, "__start_cprof", ""},
		"completion, unknown shell": {"completion bsh", 2, "", `did you mean "bash"?`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			var out, err strings.Builder
			code := Run(ctx, toyRoot(), strings.Fields(test.args), &out, &err)
			if code != test.code {
				t.Errorf("exit code = %d, want %d", code, test.code)
			}
			if !strings.Contains(out.String(), test.out) || (test.out == "") != (out.Len() == 0) {
				t.Errorf("standard output = %q, want %q in it", &out, test.out)
			}
			if !strings.Contains(err.String(), test.err) || (test.err == "") != (err.Len() == 0) {
				t.Errorf("standard error = %q, want %q in it", &err, test.err)
			}
		})
	}
}
