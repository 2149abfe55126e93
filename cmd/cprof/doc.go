// Command cprof is Cloudprofiler's tool for people: it runs the demonstration, looks into rings and
// logs, relates nodes and answers from runs. The work is below internal/cli.
package main
