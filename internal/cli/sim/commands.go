package sim

import "github.com/spf13/cobra"

// Commands returns the commands of this package, for the command cprof.
func Commands() []*cobra.Command {
	return []*cobra.Command{newSim()}
}
