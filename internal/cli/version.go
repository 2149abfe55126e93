package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print which build this is",
		Args:    cobra.NoArgs,
		Example: "  cprof version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), thisVersion())
			return err
		},
	}
}

// thisVersion says in one line which build runs.
func thisVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return version(info)
}

// version says in one line what info knows. A build from a checkout has a commit only if the go command was let to ask
// git (-buildvcs), a build from the module cache has a version and no commit.
func version(info *debug.BuildInfo) string {
	number := info.Main.Version
	if number == "" || number == "(devel)" {
		number = "devel"
	}
	words := []string{"cprof", number}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if commit := settings["vcs.revision"]; commit != "" {
		commit = "commit " + commit[:min(12, len(commit))]
		if settings["vcs.modified"] == "true" {
			commit += " and changes"
		}
		words = append(words, commit)
	}
	words = append(words, info.GoVersion)
	if os, arch := settings["GOOS"], settings["GOARCH"]; os != "" && arch != "" {
		words = append(words, os+"/"+arch)
	}
	return strings.Join(words, " ")
}
