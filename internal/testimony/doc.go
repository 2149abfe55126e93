// Package testimony runs programs that log until they are killed, for tests that compare logs with
// the calls that were made. Each program notes in a file, its testimony, how many calls of each
// writer have returned, and into which rings the program logs. The file outlives the program.
//
// The test decides what the programs log, what drains their rings, and what the logs must contain
// afterwards.
package testimony
