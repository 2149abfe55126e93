// Package daemon contains what the daemons' commands have in common: a configuration from a file,
// the environment and flags; signals, a log on standard error, exit codes and the version. It also
// reads the key files that a configuration names, and measures this machine's node.
//
// Each command defines what its daemon does, which keys its configuration has, and what they mean.
// cprof is not a daemon, but also uses the version and the signals of this package.
package daemon
