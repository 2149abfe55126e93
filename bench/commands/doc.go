// Package commands is the command cp-bench. It has one file for each subcommand, with the tables
// that it prints and the limits of the bars that it reports to package proof. What is measured, and
// how, is left to package bench and the packages below it.
package commands
