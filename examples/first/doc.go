// Command first is the smallest program that logs: two actors in one process, each with a channel at the start and at the
// end of its work. Copy it.
//
// Run it, then look at what it left: cprof ring list.
package main
