package house

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// importsFollow is the rule that packages import only what the table allows.
func importsFollow(table map[string]room) rule {
	return func(t *testing.T, files []file) []finding {
		module := moduleOf(t, files)
		var found []finding
		report := func(place, format string, args ...any) {
			found = append(found, finding{place, fmt.Sprintf(format, args...)})
		}
		for _, p := range packages(t, files) {
			name, own, ok := roomOf(table, p.path)
			if !ok {
				report(p.path, "package is not in the import table")
				continue
			}
			for imported, where := range p.imports {
				inside, isOurs := strings.CutPrefix(imported, module+"/")
				switch {
				case imported == "C":
					if !slices.Contains(own.modules, zmq4) {
						report(where, "cgo: only packages that may import zmq4 build with it")
					}
				case isOurs:
					if !allowed(own.imports, inside) {
						report(where, "imports %q, the table allows %s only %q",
							inside, name, own.imports)
					}
				case strings.Contains(strings.Split(imported, "/")[0], "."):
					if !slices.ContainsFunc(own.modules,
						func(m string) bool { return within(imported, m) }) {
						report(where, "imports %q, the table allows %s only %q",
							imported, name, own.modules)
					}
				}
			}
		}
		return found
	}
}

// roomOf returns the line of the table for a package: its own line, or else the line "FOLDER/..."
// of a folder above it.
func roomOf(table map[string]room, name string) (string, room, bool) {
	if own, ok := table[name]; ok {
		return name, own, true
	}
	for pattern, own := range table {
		if base, ok := strings.CutSuffix(pattern, "/..."); ok && within(name, base) {
			return pattern, own, true
		}
	}
	return "", room{}, false
}

// allowed reports whether a pattern matches name, and no pattern with "!" excludes name.
func allowed(patterns []string, name string) bool {
	matches := func(pattern string) bool {
		base, all := strings.CutSuffix(pattern, "...")
		return name == pattern || all && (base == "" || within(name, strings.TrimSuffix(base, "/")))
	}
	ok := false
	for _, pattern := range patterns {
		if refused, not := strings.CutPrefix(pattern, "!"); not && matches(refused) {
			return false
		}
		ok = ok || matches(pattern)
	}
	return ok
}

func within(name, base string) bool { return name == base || strings.HasPrefix(name, base+"/") }

func TestImportsFollowTheTable(t *testing.T) {
	check(t, importsFollow(table))
}

func TestTableStandsOnItsFloors(t *testing.T) {
	for name, own := range table {
		for _, lower := range own.imports {
			if lower == "..." || strings.HasPrefix(lower, "!") {
				continue // the top floor may import every package
			}
			below, ok := table[lower]
			if !ok {
				t.Errorf("%s may import %q, which is not in the table", name, lower)
			} else if below.floor >= own.floor {
				t.Errorf("%s (floor %d) may import %s (floor %d)", name, own.floor, lower,
					below.floor)
			}
		}
	}
}

func TestImportRuleFinds(t *testing.T) {
	small := map[string]room{
		"asm":          {0, nil, of(sys)},
		"ring":         {1, of("asm"), of(sys)},
		"control":      {1, nil, of(zmq4)},
		"cmd/...":      {5, of("..."), of(cobra)},
		"internal/...": {5, of("..."), nil},
		"examples/...": {5, of("...", "!internal/..."), nil},
	}
	const top = "package p\n"
	from := func(imported string) string { return top + "import _ " + `"` + imported + `"` + "\n" }
	runRule(t, importsFollow(small), map[string]ruleTest{
		"allowed, and the " +
			"standard library": {tree{"ring/a.go": from("m.io/m/asm") + `import _ "os"`}, nil},
		"a package of an allowed module": {tree{"asm/a.go": from(sys + "/unix")}, nil},
		"upwards": {tree{"asm/a.go": from("m.io/m/ring")},
			of("asm/a.go")},
		"a module with the same beginning": {tree{"asm/a.go": from(sys + "fs")},
			of("asm/a.go")},
		"a module of another room": {tree{"ring/a.go": from(zmq4)},
			of("ring/a.go")},
		"behind another platform's name": {tree{"asm/a_plan9.go": from("m.io/m/ring")},
			of("asm/a_plan9.go")},
		"behind a build tag": {tree{"asm/a.go": "//go:build never\n\n" +
			from("m.io/m/ring")}, of("asm/a.go")},
		"tests are free": {tree{"asm/a.go": top,
			"asm/a_test.go": from("m.io/m/ring")}, nil},
		"not in the table":             {tree{"novel/a.go": top}, of("novel")},
		"below one that is":            {tree{"ring/inner/a.go": top}, of("ring/inner")},
		"not in the table, tests only": {tree{"novel/a_test.go": top}, of("novel")},
		"at the root":                  {tree{"a.go": top}, of(".")},
		"a command": {tree{"cmd/x/a.go": from("m.io/m/ring") +
			`import _ "m.io/m/internal/y"`}, nil},
		"below internal": {tree{"internal/x/y/a.go": from("m.io/m/internal/z")},
			nil},
		"internal from below": {tree{"ring/a.go": from("m.io/m/internal/z")},
			of("ring/a.go")},
		"internal from an example": {tree{"examples/x/a.go": from("m.io/m/internal/z")},
			of("examples/x/a.go")},
		"an example":        {tree{"examples/x/a.go": from("m.io/m/ring")}, nil},
		"cgo":               {tree{"ring/a.go": from("C")}, of("ring/a.go")},
		"cgo where zmq4 is": {tree{"control/a.go": from("C")}, nil},
		"a nested module goes its own way": {tree{"tools/go.mod": "module t\n",
			"tools/x/a.go": from("m.io/m/ring")}, nil},
		"test data and built files " +
			"are not looked": {tree{"asm/testdata/a.go": from("C"), "bin/a.go": top}, nil},
	})
}
