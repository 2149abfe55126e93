// Package cli puts the command cprof together from its families of commands.
//
// Each family is a package below this one, with one file for each command: answers (analyze, diff,
// export, paths, replay, report, serve), fleet (config, keys, node, nodes, place, run, snapshot,
// top), gen, java, logs (log), machine (doctor), record (record, attach), relations (relate,
// relation), rings (agent, capture, find, hot, ring) and sim. Only version and demo are here. No
// family imports another. What families share is in package internal/command, which also defines
// how a command ends. What a command computes belongs to the package of its subject: a family
// contains only flags and tables.
package cli
