// Command cprof-demo is what "cprof demo" starts: the whole product on one machine. It is a
// separate program because it contains a streaming job and a message broker. All of its code is in
// package examples/demo.
package main
