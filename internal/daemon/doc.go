// Package daemon is what the daemons' commands have in common: a configuration from a file, the environment and flags; signals, a log
// on standard error, exit codes, the version; and from their configuration the keys of a link and this machine's node.
//
// What a daemon does, which keys it has and what they mean, its command knows. cprof, which is none, has its version and signals from
// here as well.
package daemon
