// Package command contains what all commands for people share: how a command ends, the exit code
// for each error, the line that shows progress, common flags, and how to replace a file at once.
//
// A subcommand is a *cobra.Command below the root that is passed to [Run]. It writes its answer to
// cmd.OutOrStdout(), and progress and warnings to cmd.ErrOrStderr(). It ends early if cmd.Context()
// ends. It returns its error, and does not print it. No subcommand calls os.Exit. The subcommands
// themselves are below internal/cli, and in bench/commands and examples/demo.
package command
