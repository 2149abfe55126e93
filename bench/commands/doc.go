// Package commands is the command cp-bench. It has one file for each subcommand. The file contains
// the tables that the subcommand prints, and the limits of the bars that it reports to package
// proof. What is measured, and how, is left to package bench and the packages below it.
package commands
