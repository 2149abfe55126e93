// Package logs is the command log: it reads, checks and rescues log files.
//
// Each subcommand has a file. The format and the reader belong to package logstore.
package logs
