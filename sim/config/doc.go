// Package config reads configurations in PeerSim's syntax, and computes their values.
//
// A line is a key and a value. A component is declared by a key such as protocol.avg, whose value
// is the name of its class, and has parameters such as protocol.avg.step. A number may be an
// expression of other keys. Braces on lines of their own put the key above them in front of the
// keys between them. order.X and include.X say in which order the components of kind X are used,
// and which.
// range.X names a key and the values that it takes, in one simulation after the other.
//
// Beyond PeerSim, a number may have a unit of time (10ms), which stands for nanoseconds.
//
// The package does not know which keys mean something. It notes which keys are asked for. Each key
// that nobody asked for is an error, with its line and the nearest key that was asked for.
package config
