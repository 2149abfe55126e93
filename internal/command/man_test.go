package command

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestMan(t *testing.T) {
	root := &cobra.Command{Use: "tool", Short: "Do things", Long: "Do things.\n\n  a list\n\n" +
		".hidden files and back\\slashes", Example: "  tool run X"}
	run := &cobra.Command{Use: "run NAME", Short: "Run one", RunE: func(*cobra.Command,
		[]string) error {
		return nil
	}}
	run.Flags().Int("count", 7, "how `often`")
	run.Flags().Bool("secret", false, "hidden")
	if err := run.Flags().MarkHidden("secret"); err != nil {
		t.Fatal(err)
	}
	root.AddCommand(run)
	got := Man(root, 1, "v1")
	for _, want := range []string{
		".TH TOOL 1 \"\" \"v1\"", ".SH NAME\ntool \\- Do things\n", ".B tool COMMAND\n",
		".nf\n  a list\n.fi\n", "\n\\&.hidden files and back\\eslashes\n",
		".SS tool run\n.B tool run NAME\n[options]\n",
		"Options:\n.nf\n      \\-\\-count often   how often (default 7)\n.fi\n", "  tool run X",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "secret") || strings.Contains(got, "help") {
		t.Errorf("what is hidden is in\n%s", got)
	}
}
