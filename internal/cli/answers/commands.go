package answers

import "github.com/spf13/cobra"

// Commands returns this family of commands, to be put below cprof.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		newAnalyze(), newDiff(), newExport(), newPaths(), newReplay(), newReport(), newServe(),
	}
}
