// Package gen is the command gen: it sends tuples at a rate, receives them and searches for a
// limit.
//
// Each subcommand has a file. Load, checks and the search belong to package generator.
package gen
