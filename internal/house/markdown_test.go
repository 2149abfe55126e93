package house

import (
	"fmt"
	"io"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/cloudprofiler/cloudprofiler/bench/commands"
	"github.com/cloudprofiler/cloudprofiler/examples/demo"
	"github.com/cloudprofiler/cloudprofiler/internal/cli"
)

// linksResolve is the rule that every link in a Markdown page to a target in the repository leads
// to an existing file, folder or heading.
func linksResolve(_ *testing.T, files []file) []finding {
	var found []finding
	for _, f := range files {
		if path.Ext(f.path) != ".md" {
			continue
		}
		for _, target := range linksOf(string(f.text)) {
			if reason := unresolved(files, f, target); reason != "" {
				found = append(found,
					finding{f.path, fmt.Sprintf("link to %q: %s", target, reason)})
			}
		}
	}
	return found
}

func unresolved(files []file, from file, target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return err.Error()
	}
	if u.Scheme != "" || u.Host != "" {
		return "" // a link to another site is not checked
	}
	page := from
	if u.Path != "" {
		to := path.Join(path.Dir(from.path), u.Path)
		if strings.HasPrefix(u.Path, "/") {
			return "absolute: it works on no checkout"
		}
		isDir := slices.ContainsFunc(files,
			func(f file) bool { return to == "." || strings.HasPrefix(f.path, to+"/") })
		var isFile bool
		page, isFile = find(files, to)
		if !isDir && !isFile {
			return "no such file or folder"
		}
	}
	if u.Fragment != "" && path.Ext(page.path) == ".md" &&
		!slices.Contains(anchorsOf(string(page.text)), u.Fragment) {
		return "no such heading"
	}
	return ""
}

// pagesAreReached is the rule that a chain of links leads from README.md to every page.
func pagesAreReached(_ *testing.T, files []file) []finding {
	reached := map[string]bool{"README.md": true}
	for todo := []string{"README.md"}; len(todo) > 0; todo = todo[1:] {
		page, _ := find(files, todo[0])
		for _, target := range linksOf(string(page.text)) {
			u, err := url.Parse(target)
			if err != nil || u.Scheme != "" || u.Path == "" || path.Ext(u.Path) != ".md" {
				continue
			}
			if to := path.Join(path.Dir(page.path), u.Path); !reached[to] {
				reached[to] = true
				todo = append(todo, to)
			}
		}
	}
	var found []finding
	for _, f := range files {
		if path.Ext(f.path) == ".md" && !reached[f.path] && !strings.Contains(f.path, "testdata/") {
			found = append(found, finding{f.path, "no links lead here from README.md"})
		}
	}
	return found
}

var (
	inlineLink = regexp.MustCompile(
		`\]\(\s*<?([^()\s<>]+(?:\([^()\s]*\))?)>?(?:\s+"[^"]*")?\s*\)`)
	referenceLink = regexp.MustCompile(`^ {0,3}\[[^\]]+\]:\s+<?([^\s<>]+)`)
	codeSpan      = regexp.MustCompile("`[^`]*`")
)

func linksOf(text string) []string {
	var targets []string
	for _, line := range linesOf(text) {
		if line.inFence {
			continue
		}
		prose := codeSpan.ReplaceAllString(line.text, "")
		for _, match := range inlineLink.FindAllStringSubmatch(prose, -1) {
			targets = append(targets, match[1])
		}
		if match := referenceLink.FindStringSubmatch(prose); match != nil {
			targets = append(targets, match[1])
		}
	}
	return targets
}

// anchorsOf returns the fragments with which links can point to the headings of a page.
func anchorsOf(text string) []string {
	var anchors []string
	for _, line := range linesOf(text) {
		title := strings.TrimLeft(line.text, "#")
		if line.inFence || title == line.text || !strings.HasPrefix(title, " ") {
			continue
		}
		var anchor strings.Builder
		for _, r := range strings.ToLower(strings.TrimSpace(title)) {
			switch {
			case r == ' ':
				anchor.WriteByte('-')
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				anchor.WriteRune(r)
			}
		}
		anchors = append(anchors, anchor.String())
	}
	return anchors
}

// A markdownLine is a line of a page. If the line is in a fenced block, it also has the block's
// language.
type markdownLine struct {
	text    string
	inFence bool // true also for the fences themselves
	lang    string
}

func linesOf(text string) []markdownLine {
	var lines []markdownLine
	fence, lang := "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		trimmed := strings.TrimSpace(line)
		switch {
		case fence == "" && (strings.HasPrefix(trimmed, "```") ||
			strings.HasPrefix(trimmed, "~~~")):
			fence, lang = trimmed[:3], strings.TrimSpace(trimmed[3:])
			lines = append(lines, markdownLine{line, true, ""})
		case fence != "" && strings.HasPrefix(trimmed, fence):
			fence, lang = "", ""
			lines = append(lines, markdownLine{line, true, ""})
		default:
			lines = append(lines, markdownLine{line, fence != "", lang})
		}
	}
	return lines
}

var (
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
	plainWord  = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
)

// commandsExist is the rule that every "make TARGET" and every "cprof COMMAND" in a page's sh
// blocks exists. It does not check other programs.
func commandsExist(t *testing.T, files []file) []finding {
	makefile, _ := find(files, "Makefile")
	var targets []string
	for _, match := range makeTarget.FindAllSubmatch(makefile.text, -1) {
		targets = append(targets, string(match[1]))
	}
	var found []finding
	for _, f := range files {
		if path.Ext(f.path) != ".md" {
			continue
		}
		for _, line := range linesOf(string(f.text)) {
			command, _, _ := strings.Cut(line.text, "#")
			words := strings.Fields(command)
			if len(words) > 1 && (words[0] == "$" || words[0] == "sudo") {
				words = words[1:]
			}
			if line.lang != "sh" || len(words) == 0 {
				continue
			}
			exists := true
			switch strings.TrimPrefix(words[0], "bin/") {
			case "make":
				exists = len(words) == 1 || slices.Contains(targets, words[1])
			case "cprof", "cp-bench":
				exists = isCommand(t, words)
			}
			if !exists {
				found = append(found,
					finding{f.path, fmt.Sprintf("no such command: %q", strings.Join(words, " "))})
			}
		}
	}
	return found
}

// isCommand reports whether a command and its flags exist. It asks the command for its help. The
// words before the first flag or argument must be a command with help, not a group of commands. The
// help must list every flag that the argument words contains.
func isCommand(t *testing.T, words []string) bool {
	name, words := strings.TrimPrefix(words[0], "bin/"), words[1:]
	run := cli.Run
	switch {
	case name == "cp-bench":
		run = commands.Run
	case len(words) > 0 && words[0] == "demo":
		run = demo.Main
	}
	if end := slices.IndexFunc(words,
		func(w string) bool { return strings.ContainsAny(w, "|<>;&") }); end >= 0 {
		words = words[:end] // the shell uses the rest
	}
	last := slices.IndexFunc(words, func(w string) bool { return !plainWord.MatchString(w) })
	if last < 0 {
		last = len(words)
	}
	for ; last > 0; last-- { // the last word may be an argument: try without it
		var help strings.Builder
		code := run(t.Context(), append(words[:last:last], "--help"), &help, io.Discard)
		if code == 0 && strings.Contains(help.String(), name+" "+strings.Join(words[:last], " ")) {
			return !strings.Contains(help.String(), "Available Commands:") &&
				!slices.ContainsFunc(words, func(w string) bool {
					flag, _, _ := strings.Cut(w, "=")
					return strings.HasPrefix(flag, "--") && !strings.Contains(help.String(),
						" "+flag+" ")
				})
		}
	}
	return false
}

func TestLinksResolve(t *testing.T)    { check(t, linksResolve) }
func TestPagesAreReached(t *testing.T) { check(t, pagesAreReached) }
func TestCommandsExist(t *testing.T)   { check(t, commandsExist) }

func TestLinkRuleFinds(t *testing.T) {
	page := "# The first\n\n## A bound, w = 1\n"
	runRule(t, linksResolve, map[string]ruleTest{
		"all kinds of good ones": {tree{
			"README.md": "# Top\n[a](docs/a.md) [b](docs) [c](docs/a.md#a-bound-w--1) " +
				"[d](#top) ![e](x.png \"E\") [f]\n\n[f]: docs/a.md\n",
			"docs/a.md":    "# The first\n\n## A bound, w = 1\n[up](../README.md#top)\n",
			"x.png":        "picture",
			"docs/deep.md": "[root](..)",
		}, nil},
		"elsewhere": {tree{"README.md": "[a](https://example.org/x.md) " +
			"[b](mailto:x@example.org)"}, nil},
		"no such file": {tree{"README.md": "[a](docs/b.md)", "docs/a.md": page},
			of("README.md")},
		"right from the root": {tree{"docs/a.md": "[a](docs/b.md)", "docs/b.md": page},
			of("docs/a.md")},
		"no such heading": {tree{"README.md": "[a](docs/a.md#second)", "docs/a.md": page},
			of("README.md")},
		"no such heading here": {tree{"README.md": "# Top\n[a](#bottom)"}, of("README.md")},
		"a heading in a fence": {tree{"README.md": "[a](#top)\n```\n# Top\n```\n"},
			of("README.md")},
		"by reference":    {tree{"README.md": "[a]\n\n[a]: docs/a.md\n"}, of("README.md")},
		"no such picture": {tree{"README.md": "![a](a.png)"}, of("README.md")},
		"a picture":       {tree{"README.md": "![a](a.png)", "a.png": "\x89PNG\x00"}, nil},
		"absolute": {tree{"README.md": "[a](/docs/a.md)", "docs/a.md": page},
			of("README.md")},
		"out of the repository": {tree{"README.md": "[a](../x.md)"}, of("README.md")},
		"code is no link":       {tree{"README.md": "`[a](b.md)`\n```go\n[a](b.md)\n```\n"}, nil},
		"not Markdown":          {tree{"a.txt": "[a](b.md)"}, nil},
	})
}

func TestReachRuleFinds(t *testing.T) {
	runRule(t, pagesAreReached, map[string]ruleTest{
		"over others": {tree{"README.md": "[a](docs/a.md#top)", "docs/a.md": "[b](../b.md)",
			"b.md": "[up](README.md)"}, nil},
		"by none": {tree{"README.md": "`docs/a.md` [b](b.md)", "docs/a.md": "[b](../b.md)",
			"b.md": ""}, of("docs/a.md")},
		"by each other": {tree{"README.md": "", "a.md": "[b](b.md)", "b.md": "[a](a.md)"},
			of("a.md", "b.md")},
		"what tests use": {tree{"README.md": "", "x/testdata/a.md": ""}, nil},
	})
}

func TestCommandRuleFinds(t *testing.T) {
	block := func(line string) tree {
		return tree{"Makefile": "demo: build\n\ttrue\n",
			"README.md": "Do\n\n```sh\n" + line + "\n```\n"}
	}
	runRule(t, commandsExist, map[string]ruleTest{
		"a target":              {block("make demo"), nil},
		"the default target":    {block("make   # list"), nil},
		"no such target":        {block("make dmeo"), of("README.md")},
		"a variable, no target": {block("make CC=x"), of("README.md")},
		"a command":             {block("cprof version"), nil},
		"a benchmark":           {block("bin/cp-bench log --json"), nil},
		"no such benchmark":     {block("cp-bench lgo"), of("README.md")},
		"a demonstration":       {block("cprof demo --keep x"), nil},
		"not a flag of it":      {block("cprof demo --kept x"), of("README.md")},
		"the built command":     {block("bin/cprof nodes --json   # all pairs"), nil},
		"an argument":           {block("$ cprof help version"), nil},
		"no such command":       {block("cprof vresion"), of("README.md")},
		"no such in a group":    {block("cprof completion bsh"), of("README.md")},
		"in a group":            {block("cprof completion bash"), nil},
		"nothing":               {block("cprof"), of("README.md")},
		"another program":       {block("# look\ngit log"), nil},
		"a flag":                {block("cprof nodes --json | jq -r '.go' --nosuch"), nil},
		"no such flag":          {block("cprof analyze runs/x --chanel=y"), of("README.md")},
		"a flag of another":     {block("cprof version --slowest 5"), of("README.md")},
		"another language":      {tree{"README.md": "```\nmake nosuch\n```\n"}, nil},
	})
}
