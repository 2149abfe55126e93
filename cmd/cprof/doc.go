// Command cprof is Cloudprofiler's tool for people: it runs the demonstration, looks into rings and
// logs, relates nodes and answers from runs. All of it is below internal/cli; this command wires and
// exits.
package main
