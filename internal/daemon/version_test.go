package daemon

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	setting := func(key, value string) debug.BuildSetting {
		return debug.BuildSetting{Key: key,
			Value: value}
	}
	tests := map[string]struct {
		info debug.BuildInfo
		want string
	}{
		"from a checkout without git": {
			debug.BuildInfo{GoVersion: "go1.26", Main: debug.Module{Version: "(devel)"}},
			"cprof devel go1.26",
		},
		"from a changed checkout": {
			debug.BuildInfo{GoVersion: "go1.26", Settings: []debug.BuildSetting{
				setting("vcs.revision", "0123456789abcdef"), setting("vcs.modified", "true"),
				setting("GOOS", "linux"), setting("GOARCH", "arm64")}},
			"cprof devel commit 0123456789ab with uncommitted changes go1.26 linux/arm64",
		},
		"installed by version": {
			debug.BuildInfo{GoVersion: "go1.26", Main: debug.Module{Version: "v0.2.0"}},
			"cprof v0.2.0 go1.26",
		},
		"a revision shorter than usual": {
			debug.BuildInfo{GoVersion: "go1.26",
				Settings: []debug.BuildSetting{setting("vcs.revision", "abc")}},
			"cprof devel commit abc go1.26",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := version("cprof", &test.info); got != test.want {
				t.Errorf("version = %q, want %q", got, test.want)
			}
		})
	}
}
