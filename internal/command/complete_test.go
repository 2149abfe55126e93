package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// Completion offers a channel only for a file with the name of a ring.
func TestCompleteChannels(t *testing.T) {
	dir := t.TempDir()
	incarnation := strings.Repeat("0f", 16)
	for _, name := range []string{
		"parser#3~start." + incarnation + ".ring", "a.b~end." + incarnation + ".ring",
		"parser#3~start." + strings.Repeat("1f", 16) + ".ring", "$(x)~y." + incarnation + ".ring",
		"node", "x.ring",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	complete := CompleteChannels(&dir, 1, cobra.ShellCompDirectiveNoFileComp)
	for typed, want := range map[string][]string{
		"": {"a.b/end", "parser#3/start"}, "p": {"parser#3/start"}, "q": nil,
	} {
		if got, _ := complete(nil, nil, typed); cmp.Diff(want, got) != "" {
			t.Errorf("%q is completed to %q, want %q", typed, got, want)
		}
	}
	if got, _ := complete(nil, []string{"one"}, ""); got != nil {
		t.Errorf("a second argument is completed to %q", got)
	}
	dir = filepath.Join(dir, "none")
	if got, _ := complete(nil, nil, ""); got != nil {
		t.Errorf("where there are no rings: %q", got)
	}
}
