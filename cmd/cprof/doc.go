// Command cprof is Cloudprofiler's tool for people. It runs the demonstration, inspects rings and
// logs, relates nodes and computes answers from runs. All of its code is below internal/cli.
package main
