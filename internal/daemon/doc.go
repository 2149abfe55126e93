// Package daemon is what the daemons' commands have in common: a configuration from a file, the
// environment and flags; signals, a log on standard error, exit codes and the version. From a
// configuration it also makes the keys of a link and this machine's node.
//
// What a daemon does, and which keys it has and what they mean, is left to its command. cprof is no
// daemon, but takes its version and signals from here as well.
package daemon
