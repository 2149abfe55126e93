// Command cp-bench measures what the product costs on this machine, and how true it is. It is for
// developers and is not shipped to operators. Its subcommands are in package bench/commands.
package main
