// Package testimony runs programs that log until they are killed, for tests that compare logs with
// the calls that were made. Each program records in a file, which outlives it, how many calls of
// each writer have returned, and into which rings.
//
// What is logged, what drains it, and what must be in the logs afterwards is left to the test.
package testimony
