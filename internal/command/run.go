package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cloudprofiler/cloudprofiler/internal/similar"
)

// These are the exit codes of every subcommand.
const (
	Answered = 0 // the question was answered
	Failed   = 1 // the question was not answered
	Usage    = 2 // the command line is wrong, and nothing was done
	Partial  = 3 // the question was answered, with suspect or missing parts
)

// A subcommand returns ErrPartial, wrapped, if it has printed its answer but parts of the answer
// are suspect or missing. After the answer Run prints the text of the error, which names these
// parts.
var ErrPartial = errors.New("answered with suspect or missing parts")

// A UsageError reports a mistake in the command line that cobra does not find, such as two flags
// that exclude each other. Errors that cobra finds need no wrapping.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }
func (e UsageError) Unwrap() error { return e.Err }

func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Run runs root with args and returns the exit code. args is the command line without the program's
// name. If ctx is cancelled, the subcommand ends early, as failed.
func Run(ctx context.Context, root *cobra.Command, args []string, out, errs io.Writer) int {
	stdout, stderr := &plainWriter{to: out}, &plainWriter{to: errs}
	defer stderr.Close()
	defer stdout.Close()
	root.SetArgs(args)
	// Set the writer before Prepare, because cobra's completion commands keep the writer that they
	// find.
	root.SetOut(stdout)
	root.SetErr(stderr)
	begun := Prepare(root)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return Answered
	}
	fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
	var usage UsageError
	switch {
	case !*begun, errors.As(err, &usage):
		fmt.Fprintf(stderr, "see %q\n", cmd.CommandPath()+" --help")
		return Usage
	case errors.Is(err, ErrPartial):
		return Partial
	default:
		return Failed
	}
}

// Prepare gives root and all commands below it the behaviour that they share. *begun becomes true
// when a subcommand's own code begins to run. An error before that means that the command line is
// wrong.
func Prepare(root *cobra.Command) (begun *bool) {
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.InitDefaultHelpFlag()
	root.InitDefaultCompletionCmd()
	root.SetHelpCommand(newHelp())
	root.InitDefaultHelpCmd()

	begun = new(bool)
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		if cmd.HasSubCommands() {
			makeGroup(cmd)
			return
		}
		if own := cmd.Args; own != nil {
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				if err := own(cmd, args); err != nil {
					return wrongArguments(cmd, args, err)
				}
				return nil
			}
		}
		if own := cmd.RunE; own != nil {
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				*begun = true
				return own(cmd, args)
			}
		}
	}
	walk(root)
	if root.Version != "" {
		line := root.Version
		root.Version = "" // without this, cobra would answer --version
		AnswerVersion(root, line)
	}
	return begun
}

// wrongArguments returns an error that names the missing or surplus argument in the words of the
// command's usage. Cobra itself only counts arguments ("accepts 1 arg(s), received 0"), or mistakes
// a surplus argument for a command.
func wrongArguments(cmd *cobra.Command, args []string, err error) error {
	wanted := strings.Fields(cmd.Use)[1:]
	switch {
	case len(args) > len(wanted):
		return fmt.Errorf("unexpected argument %q", args[len(wanted)])
	case len(args) < len(wanted):
		return fmt.Errorf("%s is missing", strings.TrimSuffix(wanted[len(args)], "..."))
	default:
		return err
	}
}

// makeGroup changes a command that only has subcommands. If its next word is wrong, the command
// answers with the nearest right word. Without makeGroup, cobra prints the help of "cprof log" for
// "cprof log nosuch", and succeeds.
func makeGroup(cmd *cobra.Command) {
	unknown := func(cmd *cobra.Command, word string) error {
		cmd.SuggestionsMinimumDistance = 2
		if near := cmd.SuggestionsFor(word); len(near) > 0 {
			return fmt.Errorf("unknown command %q, did you mean %q?", word, near[0])
		}
		return fmt.Errorf("unknown command %q", word)
	}
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknown(cmd, args[0])
		}
		cmd.SetOut(cmd.ErrOrStderr())
		if err := cmd.Help(); err != nil {
			return err
		}
		return errors.New("a command is missing")
	}
	// Cobra parses flags before it checks the word that should be a subcommand. But the error for
	// "cprof log dmup --json" should be about "dmup", not about "--json".
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if word := cmd.Flags().Arg(0); word != "" && cmd.HasSubCommands() {
			return unknown(cmd, word)
		}
		return NearestFlag(cmd, err)
	})
}

// NearestFlag is for SetFlagErrorFunc. If the error is about an unknown flag, NearestFlag adds the
// most similar flag of the command to it.
func NearestFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	var all []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			all = append(all, f.Name)
		}
	})
	if near := similar.Word(unknown.GetSpecifiedName(), slices.Values(all)); near != "" {
		return fmt.Errorf("%w: did you mean --%s?", err, near)
	}
	return err
}

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Explain a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return Usagef("no help on %q", args)
			}
			return about.Help()
		},
	}
}
