// Package daemon contains what the daemons' commands have in common: a configuration from a file,
// the environment and flags; signals, a log on standard error, exit codes and the version. From a
// configuration it also makes the keys of a link and this machine's node.
//
// Each command defines what its daemon does, and its keys and their meaning. cprof is not a daemon,
// but also uses the version and the signals of this package.
package daemon
