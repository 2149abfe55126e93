// Package collector has only tests. They check exports with two programs that others made: the
// OpenTelemetry collector's receiver, and the protocol's own schema. The package is in a module of
// its own, so that the collector's code is no part of what users build.
package collector
