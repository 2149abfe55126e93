// Package gen implements the command "cprof gen". Its subcommands send tuples at a rate, receive
// them, and search for the highest rate that an engine sustains.
//
// Each subcommand has a file. Package generator does the sending, the checks and the search.
package gen
