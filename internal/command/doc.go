// Package command is what the commands for people have in common: how a command line ends, which
// exit code an error becomes, the line of progress, shared flags, and how a file is replaced at
// once.
//
// A subcommand is a *cobra.Command below the root that [Run] is given. It writes its answer to
// cmd.OutOrStdout(), progress and warnings to cmd.ErrOrStderr(), watches cmd.Context(), and returns
// an error instead of printing it. No subcommand calls os.Exit. The subcommands themselves are
// below internal/cli, and in bench/commands and examples/demo.
package command
