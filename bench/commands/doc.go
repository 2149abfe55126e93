// Package commands is the command cp-bench: its subcommands, one file each, with the tables that they print
// and the limits of the bars that they report to package proof. What is measured, and how, is left to
// package bench and the packages below it.
package commands
