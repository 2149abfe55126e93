// Package agent is the daemon of a node. It drains the rings of this user's programs into logs, and
// keeps the logs of each run together. It records what chrony claims about the clock, and reports
// its own state.
//
//	a, err := agent.Start(agent.Config{State: "/var/lib/cloudprofiler/agent"})
//	…
//	err = a.Close() // everything that was logged is in the logs
//
// An agent works with or without a server. Without one, logs go to State/logs, the handler table is
// a file, and cprof gives the agent orders over a socket in the rings' directory, which only this
// user can open. With a server, the agent opens and closes runs at the server's command, uses the
// server's handler table, sends it the segments of a run and takes snapshots of flight recorders.
//
// # What lies in State
//
//	logs/NUMBER/                   logs without a run: a directory for each time between runs
//	runs/NAME/                     this node's part of a run, in the layout of package runs
//	state.json                     which directory of logs is being written
//	table.yaml                     the last handler table of the server
//	agent.lock
//
// If an agent is killed, the next one continues at the same place, even in the middle of a run.
//
// # Cost
//
// Memory: as for package drain. It depends on the number of rings, and not on the number of events.
// The memory of the rings belongs to the programs. Disk: at most MaxRunBytes for each run and for
// each time between runs, and never the last MinFree of the file system. At a limit, records are
// taken from the rings but not stored. Programs do not wait, and the logs say what is missing.
//
// The package does not relate counters (package tscclient does), does not make the run directory of
// a whole experiment (packages coordinator and runs do), and does not read logs.
package agent
