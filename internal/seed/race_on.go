//go:build race

package seed

// The race detector is ten times slower, and looks for other things than numbers: it gets a few of them.
const share = 5
