package main

// A listed proof is a command that reports bars (package proof). It runs in the repository's root, without a shell.
type listed struct {
	name    string
	command []string
}

// proofs is every bar of the product. "-count=1" keeps the go command from answering with an old result.
var proofs = []listed{
	{"The counter", []string{"go", "test", "-count=1", "-run", "^TestBar", "./asm"}},
	{"Bounds between two nodes", []string{"bin/cprof", "bench", "probe"}},
	{"Bounds of simulated nodes", []string{"go", "test", "-count=1", "-p=1", "-timeout=60m", "-run", "^TestBar", "./tscratio", "./minrtt"}},
	{"Rules that tests hold", []string{"go", "test", "-count=1", "-p=1", "-timeout=60m", "-run", "^TestMutations$", "./tscratio", "./minrtt", "./vnode", "./internal/virtual"}},
	{"A node that probes", []string{"go", "test", "-count=1", "-run", "^TestBar", "./tscclient"}},
	{"A log call", []string{"bin/cprof", "bench", "log", "--limit", "5m"}},
	{"The log call under kills", []string{"go", "test", "-count=1", "-run", "^TestBarKill", "./handlers"}},
	{"A log call in C", []string{"go", "test", "-count=1", "-run", "^TestBar", "./internal/conformance"}},
	{"Logs, and logging that never pauses", []string{"bin/cprof", "bench", "store", "--limit", "5m"}},
	{"A part of a long log", []string{"go", "test", "-count=1", "-run", "^TestBar", "./logstore"}},
	{"An agent: at full speed, on many channels, idle", []string{"bin/cprof", "bench", "agent"}},
	{"The agent under kills", []string{"go", "test", "-count=1", "-run", "^TestBar", "./agent"}},
	{"Load, on schedule and checked", []string{"bin/cprof", "bench", "gen"}},
	{"Search for a known limit", []string{"go", "test", "-count=1", "-run", "^TestBarSearch", "./internal/bench"}},
	{"Draining: idle, and after kills", []string{"go", "test", "-count=1", "-run", "^TestBar", "./drain"}},
	{"A fleet of 30", []string{"bin/cprof", "bench", "sweep", "--clients", "30", "--exchanges", "100"}},
	{"A fleet of 100", []string{"bin/cprof", "bench", "sweep", "--clients", "100", "--exchanges", "20"}},
	{"A fleet's bounds", []string{"bin/cprof", "bench", "sweep", "--clients", "10", "--quality"}},
	{"Closure, and a fleet with faults", []string{"go", "test", "-count=1", "-run", "^TestBar", "./coordinator"}},
	{"The analysis of a run", []string{"bin/cprof", "bench", "analyze"}},
	{"The whole product", []string{"bin/cprof", "demo"}},
	{"A streaming job with all handlers", []string{"go", "test", "-count=1", "-run", "^TestBar", "./examples/adstream/overhead"}},
}
