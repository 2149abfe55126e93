package house

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

// emptyNames lists names that do not say what a package contains. Such packages collect unrelated
// code.
var emptyNames = []string{"base", "common", "helper", "helpers", "lib", "misc", "shared", "util",
	"utils"}

// packagesIntroduceThemselves is the rule that each package has a doc.go with a package comment in
// the usual form, and a name that is not in emptyNames.
func packagesIntroduceThemselves(t *testing.T, files []file) []finding {
	var found []finding
	for _, p := range packages(t, files) {
		if slices.Contains(emptyNames, p.name) || slices.Contains(emptyNames, path.Base(p.path)) {
			found = append(found, finding{p.path, "name a package by what is in it"})
		}
		start := "Package " + p.name + " "
		if p.name == "main" {
			start = "Command " + path.Base(p.path) + " "
		}
		for name, doc := range p.docs {
			if name != "doc.go" && doc != "" {
				found = append(found,
					finding{p.path + "/" + name, "the package comment belongs in doc.go"})
			}
		}
		if doc, ok := p.docs["doc.go"]; !ok {
			found = append(found, finding{p.path, "no doc.go"})
		} else if !strings.HasPrefix(doc, start) {
			found = append(found, finding{p.path + "/doc.go",
				fmt.Sprintf("the package comment does not begin with %q", start)})
		}
	}
	return found
}

func TestPackagesIntroduceThemselves(t *testing.T) {
	check(t, packagesIntroduceThemselves)
}

func TestIntroductionRuleFinds(t *testing.T) {
	runRule(t, packagesIntroduceThemselves, map[string]ruleTest{
		"a good package": {tree{"ring/doc.go": "// Package ring is round.\npackage ring\n",
			"ring/a.go": "package ring\n"}, nil},
		"a good command":  {tree{"cmd/x/doc.go": "// Command x runs.\npackage main\n"}, nil},
		"no doc.go":       {tree{"ring/a.go": "package ring\n"}, of("ring")},
		"tests only":      {tree{"ring/a_test.go": "package ring_test\n"}, of("ring")},
		"an empty doc.go": {tree{"ring/doc.go": "package ring\n"}, of("ring/doc.go")},
		"a comment not attached": {tree{"ring/doc.go": "// Package ring is " +
			"round.\n\npackage ring\n"}, of("ring/doc.go")},
		"another form": {tree{"ring/doc.go": "// This package is round.\npackage ring\n"},
			of("ring/doc.go")},
		"another's name": {tree{"ring/doc.go": "// Package rings is " +
			"round.\npackage ring\n"}, of("ring/doc.go")},
		"a command as a package": {tree{"cmd/x/doc.go": "// Package main runs.\npackage main\n"},
			of("cmd/x/doc.go")},
		"two comments": {tree{"ring/doc.go": "// Package ring is round.\npackage ring\n",
			"ring/a.go": "// Package ring is square.\npackage ring\n"}, of("ring/a.go")},
		"an empty name": {tree{"util/doc.go": "// Package util is a " +
			"heap.\npackage util\n"}, of("util")},
		"an empty name, hidden": {tree{"misc/doc.go": "// Package ring is round.\npackage ring\n"},
			of("misc")},
		"the name of a test": {tree{"a/doc.go": "// Package a is.\npackage a\n",
			"a/a_test.go": "package a_test\n"}, nil},
		"a nested module's tree": {tree{"tools/go.mod": "module t\n",
			"tools/util/a.go": "package util\n"}, nil},
	})
}

// architectureListsPackages is the rule that docs/architecture.md lists every package.
func architectureListsPackages(t *testing.T, files []file) []finding {
	const name = "docs/architecture.md"
	page, _ := find(files, name)
	listed := linksOf(string(page.text))
	var found []finding
	for _, p := range packages(t, files) {
		if !slices.Contains(listed, "../"+p.path) {
			found = append(found, finding{p.path, "not linked from " + name})
		}
		row := "| [" + p.path + "](../" + p.path + ") |"
		if strings.Count(string(page.text), row) > 1 {
			found = append(found, finding{p.path, "has more than one row in " + name})
		}
	}
	return found
}

func TestArchitectureListsPackages(t *testing.T) {
	check(t, architectureListsPackages)
}

func TestArchitectureRuleFinds(t *testing.T) {
	const page = "docs/architecture.md"
	runRule(t, architectureListsPackages, map[string]ruleTest{
		"listed": {tree{page: "| [ring](../ring) |\n", "ring/a.go": "package ring\n"}, nil},
		"listed twice": {tree{page: "| [ring](../ring) |\n| [ring](../ring) |\n",
			"ring/a.go": "package ring\n"}, of("ring")},
		"not listed":     {tree{page: "ring\n", "ring/a.go": "package ring\n"}, of("ring")},
		"only one above": {tree{page: "[a](../a)\n", "a/b/c.go": "package b\n"}, of("a/b")},
		"no page at all": {tree{"ring/a.go": "package ring\n"}, of("ring")},
	})
}
