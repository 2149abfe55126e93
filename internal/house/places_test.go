package house

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	quoted   = regexp.MustCompile("`([^`]+)`")
	fileName = regexp.MustCompile(
		`^[\w./-]+\.(go|c|h|s|java|ts|css|mjs|sql|yaml|sh|xml|md|map|png)$`)
	codeName = regexp.MustCompile(`^[A-Za-z]+\w*$`)
	rowLink  = regexp.MustCompile(`\]\((\.\./[^)#]+|[\w-]+\.md)`)
)

// placesExist is the rule for the tables in docs/architecture.md that say where to make a change:
// each row names only what exists. A path from the root must lead to a file or a folder. The name
// of a file must be that of a file in one of the row's folders. Each other word between backquotes
// (`) must be a folder in one of these folders, or occur in one of the row's files.
func placesExist(_ *testing.T, files []file) []finding {
	const name = "docs/architecture.md"
	page, _ := find(files, name)
	_, text, _ := strings.Cut(string(page.text), "\n## Where would I change X?")
	text, _, _ = strings.Cut(text, "\n## Floors")
	var found []finding
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| to ") {
			continue
		}
		subject, where, _ := strings.Cut(line[2:], " | ")
		report := func(format string, args ...any) {
			found = append(found,
				finding{name, fmt.Sprintf(format+": row %q", append(args, subject)...)})
		}
		var named []file // what the row names, with all that is in its folders
		var others []string
		add := func(match func(p string) bool) bool {
			before := len(named)
			for _, f := range files {
				if match(f.path) {
					named = append(named, f)
				}
			}
			return len(named) > before
		}
		var folders, names []string
		for _, m := range quoted.FindAllStringSubmatch(where, -1) {
			names = append(names, m[1])
		}
		for _, m := range rowLink.FindAllStringSubmatch(where, -1) {
			names = append(names, path.Join("docs", m[1]))
		}
		for _, n := range names {
			switch inside := strings.TrimSuffix(n, "/") + "/"; {
			case add(func(p string) bool { return p == n }):
			case add(func(p string) bool { return strings.HasPrefix(p, inside) }):
				folders = append(folders, inside)
			default:
				others = append(others, n)
			}
		}
		for _, f := range named { // "`a/b.go`: … and `c.go` beside it"
			folders = append(folders, path.Dir(f.path)+"/")
		}
		slices.Sort(folders)
		folders = slices.Compact(folders)
		for _, n := range others {
			switch {
			case fileName.MatchString(n):
				if !add(func(p string) bool {
					return strings.HasSuffix(p, "/"+n) && slices.ContainsFunc(folders,
						func(d string) bool { return strings.HasPrefix(p, d) })
				}) {
					report("there is no file %q in the folders of the row", n)
				}
			case codeName.MatchString(n):
				word := regexp.MustCompile(`\b` + n + `\b`)
				if !slices.ContainsFunc(named, func(f file) bool {
					return word.Match(f.text) || strings.Contains(f.path, "/"+n+"/")
				}) {
					report("nothing that the row names has the word %q", n)
				}
			}
		}
	}
	return found
}

func TestPlacesExist(t *testing.T) { check(t, placesExist) }

func TestPlaceRuleFinds(t *testing.T) {
	const name = "docs/architecture.md"
	page := func(row string) string {
		return "# A\n\n## Where would I change X?\n\n| to change | look in |\n|---|---|\n| x | " +
			row + " |\n\n## Floors\n\n| x | `no.go` |\n"
	}
	code := "package ring\n\nfunc turn() {}\n"
	runRule(t, placesExist, map[string]ruleTest{
		"a file":         {tree{name: page("`ring/a.go`"), "ring/a.go": code}, nil},
		"in a folder":    {tree{name: page("`ring`: `a.go` (`turn`)"), "ring/a.go": code}, nil},
		"a folder of it": {tree{name: page("`ring`, in its `low`"), "ring/low/a.go": code}, nil},
		"beside it": {tree{name: page("`ring/a.go`, `b.go`"), "ring/a.go": code,
			"ring/b.go": code}, nil},
		"a link":  {tree{name: page("[r](../ring) has `a.go`"), "ring/a.go": code}, nil},
		"no file": {tree{name: page("`ring/b.go`"), "ring/a.go": code}, of(name)},
		"elsewhere": {tree{name: page("`ring/a.go`, `b.go`"), "ring/a.go": code,
			"drain/b.go": code}, of(name)},
		"no such name":   {tree{name: page("`fall` in `ring/a.go`"), "ring/a.go": code}, of(name)},
		"a part of one":  {tree{name: page("`tur` in `ring/a.go`"), "ring/a.go": code}, of(name)},
		"without a page": {tree{"ring/a.go": code}, nil},
	})
}
