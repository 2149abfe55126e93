// Package callgen makes calls between the programs of imagined applications, for tests and
// benchmarks. It knows which call caused which. The same seed gives the same calls.
package callgen
