// Command first is the smallest program that logs. It has two operators in one process, and logs
// two moments: when the first operator begins its work, and when the second operator ends its work.
// Copy it.
//
// Run it, then list the rings that it left: cprof ring list.
package main
