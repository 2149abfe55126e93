package main

// listed is a command that reports bars (package proof). The command runs in the repository's root,
// without a shell.
type listed struct {
	name    string
	command []string
	byName  bool // the command takes long, and runs only if -only names it
}

// proofs lists the commands for every bar of the product. Without "-count=1", the go command might
// repeat an old result.
var proofs = []listed{
	{name: "The counter", command: []string{"go", "test", "-count=1", "-run", "^TestBar", "./asm"}},
	{name: "Bounds between two nodes", command: []string{"bin/cp-bench", "probe"}},
	{name: "Bounds of simulated nodes", command: []string{"go", "test", "-count=1", "-p=1",
		"-timeout=60m", "-run", "^TestBar", "./tscratio", "./minrtt"}},
	{name: "Rules that tests hold", command: []string{"go", "test", "-count=1", "-p=1",
		"-timeout=60m", "-run", "^TestMutations$", "./tscratio", "./minrtt", "./host", "./vnode",
		"./internal/virtual"}},
	{name: "A node that probes", command: []string{"go", "test", "-count=1", "-run", "^TestBar",
		"./tscclient"}},
	{name: "A log call", command: []string{"bin/cp-bench", "log"}},
	{name: "A log call on other CPUs", command: []string{"go", "test", "-count=1", "-run",
		"^TestBarChains", "./bench"}},
	{name: "The log call under kills", command: []string{"go", "test", "-count=1", "-run",
		"^TestBarKill", "./handlers"}},
	{name: "A log call in C", command: []string{"go", "test", "-count=1", "-run", "^TestBar",
		"./internal/conformance"}},
	{name: "A log call in Java", command: []string{"bin/cp-bench", "java"}},
	{name: "Java under kills", command: []string{"go", "test", "-count=1", "-timeout=30m", "-run",
		"^TestBarJava", "./drain"}},
	{name: "Logs, and logging that never pauses", command: []string{"bin/cp-bench", "store"}},
	{name: "A part of a long log", command: []string{"go", "test", "-count=1", "-run", "^TestBar",
		"./logstore"}},
	{name: "An agent: at full speed, on many channels, idle",
		command: []string{"bin/cp-bench", "agent"}},
	{name: "The agent under kills, hostile rings and crowds",
		command: []string{"go", "test", "-count=1", "-timeout=60m", "-run", "^TestBar", "./agent"}},
	{name: "Load, on schedule and checked", command: []string{"bin/cp-bench", "gen"}},
	{name: "Search for a known limit", command: []string{"go", "test", "-count=1", "-run",
		"^TestBarSearch", "./bench"}},
	{name: "Draining: idle, and after kills", command: []string{"go", "test", "-count=1", "-run",
		"^TestBar", "-skip", "^TestBarJava", "./drain"}},
	{name: "A fleet of 30", command: []string{"bin/cp-bench", "sweep", "--clients", "30",
		"--exchanges", "100"}},
	{name: "A fleet of 100", command: []string{"bin/cp-bench", "sweep", "--clients", "100",
		"--exchanges", "20"}},
	{name: "A fleet's bounds", command: []string{"bin/cp-bench", "sweep", "--clients", "10",
		"--quality"}},
	{name: "Closure, and fleets with faults and restarts",
		command: []string{"go", "test", "-count=1", "-timeout=60m", "-run", "^TestBar",
			"./coordinator"}},
	{name: "A fleet that is watched", command: []string{"go", "test", "-count=1", "-run",
		"^TestBar", "./watch"}},
	{name: "The analysis of a run", command: []string{"bin/cp-bench", "analyze"}},
	{name: "Answers about random jobs", command: []string{"go", "test", "-count=1",
		"-timeout=60m", "-run", "^TestBar", "./analysis"}},
	{name: "A page of 100 million tuples", command: []string{"go", "test", "-count=1",
		"-timeout=8h", "-run", "^TestBarServe", "./internal/cli/answers"}},
	{name: "Exports in other engines", command: []string{"go", "test", "-count=1", "-timeout=60m",
		"-run", "^TestBar", "./report/export"}},
	{name: "Hostile runs", command: []string{"go", "test", "-count=1", "-timeout=8h", "-run",
		"^TestBarHostile", "./internal/cli/answers"}},
	{name: "The whole product", command: []string{"scripts/demo"}},
	{name: "A streaming job with all handlers", command: []string{"go", "test", "-count=1", "-run",
		"^TestBar", "./examples/adstream/overhead"}},
	{name: "An hour's soak", command: []string{"bin/cp-bench", "soak"}, byName: true},
}
