package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// kernelFiles lists source files that compute the names of the kernel's files that they read. These
// reads need no limit, because files of the kernel have an end.
var kernelFiles = []string{
	"bench/agent.go", "internal/memory/memory.go", "internal/oscillator/clocks_linux.go",
	"internal/proof/machine.go", "minrtt/clock.go",
}

// readsHaveLimits is the rule that code never reads a file or a stream to its end without a limit.
// A file or a peer without an end would fill all memory. Two folders are exempt: examples cannot
// import packages below internal, and only developers run mutations.
func readsHaveLimits(t *testing.T, files []file) []finding {
	var found []finding
	for _, f := range files {
		if !strings.HasSuffix(f.path, ".go") || strings.HasSuffix(f.path, "_test.go") ||
			slices.Contains(kernelFiles, f.path) || within(f.path, "examples") ||
			within(f.path, "internal/mutation") {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, f.path, f.text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			name, argument := nameOf(call.Fun), call.Args[0]
			switch {
			case name == "os.ReadFile" && !ofKernel(argument):
				found = append(found,
					finding{f.path, "os.ReadFile has no limit: use package plainfile"})
			case name == "io.ReadAll" && !limited(argument):
				found = append(found,
					finding{f.path, "io.ReadAll has no limit: use plainfile.ReadAll"})
			}
			return true
		})
	}
	return found
}

// nameOf returns "package.Function" for the function in a call.
func nameOf(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			return x.Name + "." + s.Sel.Name
		}
	}
	return ""
}

func ofKernel(e ast.Expr) bool {
	literal, ok := e.(*ast.BasicLit)
	if !ok {
		return false
	}
	path, err := strconv.Unquote(literal.Value)
	return err == nil && (within(path, "/proc") || within(path, "/sys"))
}

func limited(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	return ok && nameOf(call.Fun) == "io.LimitReader"
}

func TestReadsHaveLimits(t *testing.T) { check(t, readsHaveLimits) }

func TestLimitRuleFinds(t *testing.T) {
	in := func(call string) string { return "package p\n\nfunc f() { " + call + " }\n" }
	runRule(t, readsHaveLimits, map[string]ruleTest{
		"a file":                  {tree{"a/a.go": in("os.ReadFile(path)")}, of("a/a.go")},
		"a file of a fixed name":  {tree{"a/a.go": in(`os.ReadFile("/etc/passwd")`)}, of("a/a.go")},
		"the kernel's":            {tree{"a/a.go": in(`os.ReadFile("/proc/stat")`)}, nil},
		"with a name like that":   {tree{"a/a.go": in(`os.ReadFile("/process")`)}, of("a/a.go")},
		"a stream":                {tree{"a/a.go": in("io.ReadAll(body)")}, of("a/a.go")},
		"a stream with a limit":   {tree{"a/a.go": in("io.ReadAll(io.LimitReader(body, 9))")}, nil},
		"a file of a file system": {tree{"a/a.go": in("fs.ReadFile(root, name)")}, nil},
		"a test":                  {tree{"a/a_test.go": in("os.ReadFile(path)")}, nil},
	})
}
