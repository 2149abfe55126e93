// Package testimony runs programs that log until they are killed, for tests that hold logs against what was called. Each says in a file, which
// outlives it, how many calls of each writer have returned, and into which rings.
//
// What is logged, who drains it, and what must be in the logs afterwards is the test's.
package testimony
