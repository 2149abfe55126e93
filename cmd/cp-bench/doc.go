// Command cp-bench measures what the product costs on this machine, and whether its bounds are
// true. It is for developers and is not shipped to operators. Its subcommands are in package
// bench/commands.
package main
