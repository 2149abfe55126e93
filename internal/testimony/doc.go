// Package testimony runs programs that log until they are killed, for tests that compare logs with
// the calls that were made. Each program records in a file how many calls of each writer have
// returned, and into which rings. The file outlives the program.
//
// The test decides what is logged, what drains the rings, and what the logs must contain
// afterwards.
package testimony
