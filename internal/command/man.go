package command

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Man returns a manual page of section 1 or 8 about a command and all commands below it.
func Man(root *cobra.Command, section int, version string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s %d \"\" \"%s\" \"Cloudprofiler\"\n",
		escapeRoff(strings.ToUpper(root.Name())), section, escapeRoff(version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escapeRoff(root.Name()), escapeRoff(root.Short))
	b.WriteString(".SH SYNOPSIS\n")
	manUse(&b, root)
	b.WriteString(".SH DESCRIPTION\n")
	manText(&b, cmp.Or(root.Long, root.Short))
	manFlags(&b, ".SH OPTIONS\n", root)
	if subs := manCommands(root); len(subs) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, cmd := range subs {
			fmt.Fprintf(&b, ".SS %s\n", escapeRoff(cmd.CommandPath()))
			manUse(&b, cmd)
			b.WriteString(".PP\n")
			manText(&b, cmp.Or(cmd.Long, cmd.Short+"."))
			manFlags(&b, ".PP\nOptions:\n", cmd)
		}
	}
	if root.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", escapeRoff(root.Example))
	}
	b.WriteString(".SH SEE ALSO\nThe pages in /usr/share/doc/cloudprofiler/docs.\n")
	return b.String()
}

// manCommands returns cmd and the commands below it, in order. It leaves out those that neither run
// nor explain a group.
func manCommands(cmd *cobra.Command) (all []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" && sub.Name() != "completion" {
			all = append(append(all, sub), manCommands(sub)...)
		}
	}
	return all
}

func manUse(b *strings.Builder, cmd *cobra.Command) {
	use := cmd.CommandPath()
	if _, arguments, found := strings.Cut(cmd.Use, " "); found {
		use += " " + arguments
	}
	if cmd.HasAvailableSubCommands() {
		use += " COMMAND"
	}
	fmt.Fprintf(b, ".B %s\n", escapeRoff(use))
	if cmd.HasAvailableFlags() {
		b.WriteString("[options]\n")
	}
}

// manText writes paragraphs. An indented paragraph is a list or code, so manText keeps its line
// breaks.
func manText(b *strings.Builder, text string) {
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.HasPrefix(paragraph, " ") || strings.HasPrefix(paragraph, "\t") {
			fmt.Fprintf(b, ".nf\n%s\n.fi\n", escapeRoff(paragraph))
			continue
		}
		b.WriteString(escapeRoff(paragraph) + "\n")
	}
}

func manFlags(b *strings.Builder, heading string, cmd *cobra.Command) {
	if usages := cmd.Flags().FlagUsagesWrapped(80); usages != "" {
		fmt.Fprintf(b, "%s.nf\n%s.fi\n", heading, escapeRoff(usages))
	}
}

// escapeRoff escapes what roff would interpret: backslashes, hyphens, and a dot or quote at the
// beginning of a line.
func escapeRoff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
