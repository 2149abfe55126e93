// Package agent is the daemon of a node. It drains the rings of this user's programs into logs, and
// keeps the logs of a run together. It asks chrony for its claims, and reports its own state.
//
//	a, err := agent.Start(agent.Config{State: "/var/lib/cloudprofiler/agent"})
//	…
//	err = a.Close() // everything that was logged is in the logs
//
// It works without a server. Then logs go to State/logs, the handler table is a file, and cprof
// asks the agent over a socket in the rings' directory. Only this user may open that socket. Under
// a server's command the agent opens and closes runs, takes the server's handler table, hands out
// the segments of a run and dumps flight recorders.
//
// # What lies in State
//
//	logs/NUMBER/                   logs without a run: a directory for each time between runs
//	runs/NAME/                     this node's part of a run, in the layout of package runs
//	state.json                     which of these is being written
//	table.yaml                     the last handler table of a server, for times without it
//	agent.lock
//
// A killed agent continues where it was, even in the middle of a run.
//
// # Cost
//
// Memory: as for package drain. It is bounded by the number of rings, and not by what is logged.
// The rings themselves belong to the programs. Disk: MaxRunBytes for each run and for the logs of
// no run, and never the last MinFree of the file system. At a limit records are taken but not
// stored. Programs do not wait, and the logs say what is missing.
//
// The package relates no counters (package tscclient), makes no run directory of a whole experiment
// (packages coordinator and runs), and reads no logs.
package agent
