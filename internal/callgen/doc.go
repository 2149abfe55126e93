// Package callgen makes calls between the programs of imagined applications, for tests and
// benchmarks. It also says which call caused which call. The same seed gives the same calls.
package callgen
