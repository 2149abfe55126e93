package fleet

import "github.com/spf13/cobra"

// Commands returns the subcommands of cprof that this package defines.
func Commands() []*cobra.Command {
	return []*cobra.Command{newConfig(), newKeys(), newNode(), newNodes(), newPlace(), newRun(),
		newSnapshot(), newTop()}
}
