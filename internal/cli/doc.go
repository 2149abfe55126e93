// Package cli is the command cprof: its subcommands, one file each, and how they end.
//
// A subcommand is a function that returns a *cobra.Command and is listed in newRoot. It writes its answer to
// cmd.OutOrStdout(), progress and warnings to cmd.ErrOrStderr(), watches cmd.Context(), and returns an error instead of
// printing it. What it computes belongs to the package that knows the subject: here are only flags and tables.
//
// The exit code follows from the returned error, see [Run]; no subcommand calls os.Exit.
package cli
