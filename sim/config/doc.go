// Package config reads configurations in PeerSim's syntax, and computes their values.
//
// A line is a key and a value. A component is declared by a key such as protocol.avg, whose value
// is the name of its class, and has parameters such as protocol.avg.step. A number may be an
// expression that uses other keys. Braces stand on lines of their own. The key above an opening
// brace is put in front of each key between the braces. order.X sets the order of the components of
// kind X, and include.X chooses some of them. range.X names a key and several values. The file then
// stands for one simulation with each value.
//
// Beyond PeerSim, a number may have a unit of time (10ms), which stands for nanoseconds.
//
// The package does not know which keys have a meaning. It notes for which keys the caller asks.
// Each other key is an error, with its line and the nearest key for which the caller asked.
package config
