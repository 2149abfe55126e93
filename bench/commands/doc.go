// Package commands implements the command cp-bench. It has one file for each subcommand. The file
// contains the tables that the subcommand prints, and the limits of the bars that it reports to
// package proof. Package bench, and the packages below it, decide what to measure, and how.
package commands
