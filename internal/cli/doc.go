// Package cli puts the command cprof together from its families of commands.
//
// Each family is a package below this one, with one file for each command: answers (analyze, diff,
// export, report), fleet (config, keys, node, nodes, run, snapshot), gen, logs, machine (doctor),
// relations (relate, relation) and rings (agent, ring). Here are only version and demo. No family
// imports another; what they share is in package internal/command, which also says how a command
// ends. What a command computes belongs to the package that knows the subject: a family holds flags
// and tables.
package cli
