// Package agent is the daemon of a node. It drains the rings of this user's programs into logs, and
// keeps the logs of each run together. It records what chrony claims about the clock, and reports
// its own state.
//
//	a, err := agent.Start(agent.Config{State: "/var/lib/cloudprofiler/agent"})
//	…
//	err = a.Close() // everything that was logged is in the logs
//
// An agent works with or without a server. Without a server, logs go to State/logs, the handler
// table is a file, and cprof sends the agent orders over a socket in the rings' directory, which
// only this user can open. With a server, the agent opens and closes runs at the server's command,
// uses the server's handler table, sends the server the segments of a run, and takes snapshots of
// flight recorders when the server asks.
//
// # What is in State
//
//	logs/NUMBER/                   logs without a run: a directory for each time between runs
//	runs/NAME/                     this node's part of a run, in the layout of package runs
//	state.json                     to which directory of logs the agent writes now
//	table.yaml                     the last handler table of the server
//	agent.lock                     the lock that keeps other agents out of State
//
// If an agent is killed, the next agent continues at the same place, even in the middle of a run.
//
// # Cost
//
// Memory: as for package drain. It depends on the number of rings, and not on the number of events.
// The memory of the rings belongs to the programs. Disk: at most MaxRunBytes for each run and for
// each time between runs. MinFree is a share of the file system that the agent leaves free. At a
// limit, the agent takes records from the rings but does not store them. Programs do not wait, and
// the logs say what is missing.
//
// The package does not relate counters (package tscclient does). It does not make the run directory
// of a whole experiment (packages coordinator and runs do), and it does not read logs.
package agent
