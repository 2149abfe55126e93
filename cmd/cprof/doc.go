// Command cprof is Cloudprofiler's tool for people: it runs the demonstration, looks into rings and logs, and
// measures what the product costs on this machine. All of it is in package internal/cli; this command wires and exits.
package main
