// Package agent is the daemon of a node: it drains the rings of this user's programs into logs, keeps the logs of a run together, asks
// chrony what it claims, and says how all of that goes.
//
//	a, err := agent.Start(agent.Config{State: "/var/lib/cloudprofiler/agent"})
//	…
//	err = a.Close() // everything that was logged is in the logs
//
// Without a server it is complete: logs go to State/logs, the handler table is a file, and cprof asks it over a socket in the rings'
// directory that only this user may open. Under a server's command it opens and closes runs, takes the server's handler table, hands out
// the segments of a run and dumps flight recorders.
//
// # What lies in State
//
//	logs/NUMBER/                   what is logged while there is no run: a directory for each time between two of them
//	runs/NAME/                     this node's part of a run, in the layout of package runs
//	state.json                     which of these is being written
//	table.yaml                     the last handler table that a server sent: it holds while the server is away
//	agent.lock
//
// An agent that was killed goes on where it was, also in the middle of a run.
//
// # What it takes
//
// Memory: what package drain says, bounded by the number of rings and not by what is logged; the rings themselves are the programs'. Disk:
// MaxRunBytes for each run and the logs of no run, and never the last MinFree of the file system. When a bound is reached records are taken
// and not stored: programs do not wait, and the logs say what is missing.
//
// The package relates no counters (package tscclient), makes no run directory of a whole experiment (packages coordinator and runs) and reads no
// logs.
package agent
