// Command first is the smallest program that logs. It has two operators in one process, and logs
// where the first operator begins its work and where the second ends its work. Copy it.
//
// Run it, then list the rings that it left: cprof ring list.
package main
