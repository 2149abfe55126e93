// Command cprof-demo is the program that "cprof demo" starts. It runs the whole product on one
// machine. It is a separate program because it contains a streaming job and a message broker. All
// of its code is in package examples/demo.
package main
