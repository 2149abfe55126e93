// Command cprof-demo is what "cprof demo" starts: the whole product on one machine. It is a program
// of its own because it brings a streaming job and a message broker. All of it is in package
// examples/demo.
package main
