package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestPlain(t *testing.T) {
	if got := Plain("é\x1b[2J\u202e\n\xff"); got != "é\\u001b[2J\\u202e\n\\ufffd" {
		t.Errorf("%q", got)
	}
}

func TestPlainShowsWhatCommandsATerminal(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext\n":                       "plain\ttext\n",
		"± µs → größer":                       "± µs → größer",
		"\x1b]0;title\x07\x1b[31mred":         `\u001b]0;title\u0007\u001b[31mred`,
		"over\rwritten\b\x7f":                 `over\u000dwritten\u0008\u007f`,
		"\u009b31mred":                        `\u009b31mred`,
		"turned \u202e round \u2066 about":    `turned \u202e round \u2066 about`,
		"no \xff text \xc3":                   `no \ufffd text \ufffd`,
		strings.Repeat("x", 100_000) + "\x1b": strings.Repeat("x", 100_000) + `\u001b`,
	} {
		for _, step := range []int{len(text), 1, 2, 3} { // the text in pieces of any size
			var out bytes.Buffer
			p := &plainWriter{to: &out}
			for b := []byte(text); len(b) > 0; {
				n, err := p.Write(b[:min(step, len(b))])
				if err != nil || n != min(step, len(b)) {
					t.Fatal(n, err)
				}
				b = b[n:]
			}
			if err := p.Close(); err != nil || out.String() != want {
				t.Errorf("%.40q in pieces of %d comes out as %.60q, %v", text, step, out.String(),
					err)
			}
		}
	}
}

// No output of a subcommand contains a character that a terminal would obey: neither a table, nor a
// warning, nor an error, nor JSON.
func TestOutputCommandsNoTerminal(t *testing.T) {
	const evil = "name\x1b[2J\u009b\x7f"
	for name, do := range map[string]func(*cobra.Command) error{
		"table":   func(cmd *cobra.Command) error { cmd.Println(evil); return nil },
		"warning": func(cmd *cobra.Command) error { cmd.PrintErrln(evil); return nil },
		"error":   func(*cobra.Command) error { return errors.New(evil) },
		"json": func(cmd *cobra.Command) error {
			return json.NewEncoder(
				cmd.OutOrStdout()).Encode(evil)
		},
	} {
		root := &cobra.Command{Use: "cprof"}
		root.AddCommand(&cobra.Command{Use: "x",
			RunE: func(cmd *cobra.Command, _ []string) error { return do(cmd) }})
		var out bytes.Buffer
		Run(context.Background(), root, []string{"x"}, &out, &out)
		if strings.ContainsAny(out.String(), "\x1b\u009b\x7f") ||
			!strings.Contains(out.String(), "name") {
			t.Errorf("%s: %q", name, out.String())
		}
		if got := ""; name == "json" {
			if err := json.Unmarshal(out.Bytes(), &got); err != nil || got != evil {
				t.Errorf("json is read as %q, %v", got, err)
			}
		}
	}
}
