//go:build !race

package seed

// Race says whether the race detector watches this build.
const Race = false
