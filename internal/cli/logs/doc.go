// Package logs has the command "cprof log", which reads, checks and rescues log files.
//
// Each subcommand has a file. The format and the reader belong to package logstore.
package logs
