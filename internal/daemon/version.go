package daemon

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// Version returns one line that identifies the build of a program.
func Version(program string) string { return version(program, buildInfo()) }

// Release returns a shorter text than Version, without facts that only the builders of a program
// need.
func Release(program string) string { return program + " " + number(buildInfo()) }

func buildInfo() *debug.BuildInfo {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info
	}
	return &debug.BuildInfo{GoVersion: runtime.Version()}
}

// archive is the version in the name of the archive that contains this command. scripts/dist sets
// it. It is "" in all other builds.
var archive string

func number(info *debug.BuildInfo) string {
	if archive != "" {
		return archive
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "devel"
}

// version formats info as one line. A build from a checkout has a commit only if the go command
// could ask git (-buildvcs). A build from the module cache has a version and no commit.
func version(program string, info *debug.BuildInfo) string {
	words := []string{program, number(info)}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if commit := settings["vcs.revision"]; commit != "" {
		commit = "commit " + commit[:min(12, len(commit))]
		if settings["vcs.modified"] == "true" {
			commit += " with uncommitted changes"
		}
		words = append(words, commit)
	}
	words = append(words, info.GoVersion)
	if os, arch := settings["GOOS"], settings["GOARCH"]; os != "" && arch != "" {
		words = append(words, os+"/"+arch)
	}
	return strings.Join(words, " ")
}
