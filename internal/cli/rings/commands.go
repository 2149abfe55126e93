package rings

import "github.com/spf13/cobra"

// Commands returns the commands of this package, which cprof adds to its own.
func Commands() []*cobra.Command {
	return []*cobra.Command{newAgent(), newCapture(), newFind(), newHot(), newRing()}
}
