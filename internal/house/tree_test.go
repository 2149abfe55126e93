package house

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A file is one hand-written file of the repository. It is not built, not generated, and not part
// of a dependency.
type file struct {
	path string // relative to the root, with slashes
	text []byte
}

// A finding says what a rule found wrong at a place in the tree.
type finding struct{ place, reason string }

func (f finding) String() string { return f.place + ": " + f.reason }

// A rule examines the tree's files and returns what is wrong with them.
type rule func(t *testing.T, files []file) []finding

// notOurs lists folders that no rule examines. They contain files that nobody wrote by hand for
// this repository, or test data, which may break rules on purpose.
var notOurs = []string{".git", "node_modules", "testdata", "vendor"}

// built lists folders in the root that scripts write.
var built = []string{"bin", "dist"}

func readTree(t *testing.T, root fs.FS) []file {
	t.Helper()
	var files []file
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if slices.Contains(notOurs, entry.Name()) || slices.Contains(built, name) {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular():
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		if bytes.IndexByte(text, 0) >= 0 {
			text = nil // binary files have no lines, but pages may link to them
		}
		files = append(files, file{name, text})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// realTree returns the files of this repository.
func realTree(t *testing.T) []file {
	t.Helper()
	const root = "../.." // tests run in the folder of their package
	files := readTree(t, os.DirFS(root))
	if _, ok := find(files, "go.mod"); !ok {
		t.Fatalf("%s: no go.mod: this is not the repository's root", root)
	}
	return files
}

func find(files []file, name string) (file, bool) {
	i := slices.IndexFunc(files, func(f file) bool { return f.path == name })
	if i < 0 {
		return file{}, false
	}
	return files[i], true
}

// A pkg is one folder of Go files. It includes the files of all platforms and all build tags.
type pkg struct {
	path    string // relative to the root; "." is the root itself
	name    string
	docs    map[string]string // package comments by file name, without test files
	imports map[string]string // by import path: a file with that import, without test files
}

// packages parses the tree's Go packages, except those of nested modules.
func packages(t *testing.T, files []file) []*pkg {
	t.Helper()
	inNestedModule := func(name string) bool {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, ok := find(files, dir+"/go.mod"); ok {
				return true
			}
		}
		return false
	}
	byPath := map[string]*pkg{}
	for _, f := range files {
		if !strings.HasSuffix(f.path, ".go") || inNestedModule(f.path) {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.path, f.text,
			parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		dir := path.Dir(f.path)
		p := byPath[dir]
		if p == nil {
			p = &pkg{path: dir, docs: map[string]string{}, imports: map[string]string{}}
			byPath[dir] = p
		}
		if strings.HasSuffix(f.path, "_test.go") {
			if p.name == "" {
				p.name = strings.TrimSuffix(parsed.Name.Name, "_test")
			}
			continue
		}
		p.name = parsed.Name.Name
		p.docs[path.Base(f.path)] = docOf(parsed)
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatalf("%s: import %s: %v", f.path, spec.Path.Value, err)
			}
			p.imports[imported] = f.path
		}
	}
	var all []*pkg
	for _, p := range byPath {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *pkg) int { return strings.Compare(a.path, b.path) })
	return all
}

func docOf(parsed *ast.File) string {
	if parsed.Doc == nil {
		return ""
	}
	return parsed.Doc.Text()
}

func moduleOf(t *testing.T, files []file) string {
	t.Helper()
	f, ok := find(files, "go.mod")
	if !ok {
		t.Fatal("the tree has no go.mod")
	}
	for line := range strings.Lines(string(f.text)) {
		if words := strings.Fields(line); len(words) == 2 && words[0] == "module" {
			return words[1]
		}
	}
	t.Fatal("go.mod names no module")
	return ""
}
