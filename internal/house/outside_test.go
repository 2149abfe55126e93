package house

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// embedded lists the packages that programs import.
var embedded = []string{"asm", "channel", "handlers", "ring"}

// If a program in another module follows docs/instrumenting.md, it needs only the modules that this
// page promises: x/sys, and two more if it uses drain. Several commands of the go tool must agree
// on that.
func TestOutsideProgramGetsWhatItIsTold(t *testing.T) {
	files := realTree(t) // go test runs this test again if any of these files changes
	page, _ := find(files, "docs/instrumenting.md")
	example, _ := find(files, "examples/first/main.go")
	ours := moduleOf(t, files)
	for name, test := range map[string]struct{ packages, modules []string }{
		"what programs embed": {embedded, of(sys)},
		"drain as well":       {append(of("drain"), embedded...), of(zstd, yaml, sys)},
	} {
		t.Run(name, func(t *testing.T) {
			p := newOutsideProgram(t, ours, example.text, test.packages)
			p.run("sh", "-ec", firstCommands(t, string(page.text)))
			want := slices.Sorted(slices.Values(append(of(ours), test.modules...)))
			for way, got := range map[string][]string{
				"go.mod requires":         p.required(),
				"the program is built of": p.built(),
				"go mod vendor copies":    p.vendored(),
				"go mod why finds used":   p.used(),
			} {
				if !slices.Equal(got, want) {
					t.Errorf("%s %q, want %q", way, got, want)
				}
			}
			if cgo := p.cgo(); len(cgo) > 0 {
				t.Errorf("%q use cgo", cgo)
			}
			p.run("go", "build", "-o", os.DevNull, ".")
		})
	}
}

// firstCommands returns the first block of shell commands below the page's heading Go.
func firstCommands(t *testing.T, page string) string {
	t.Helper()
	_, section, _ := strings.Cut(page, "\n## Go\n")
	_, block, found := strings.Cut(section, "```sh\n")
	block, _, _ = strings.Cut(block, "```")
	if !found || !strings.Contains(block, "-replace") {
		t.Fatalf("docs/instrumenting.md: the first commands for Go are %q", block)
	}
	return block
}

// outsideProgram is a program in a module of its own, next to a clone of this repository.
type outsideProgram struct {
	t      *testing.T
	folder string
}

func newOutsideProgram(t *testing.T, ours string, main []byte, packages []string) *outsideProgram {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	if err := os.Symlink(root, filepath.Join(parent, "cloudprofiler")); err != nil {
		t.Fatal(err)
	}
	p := &outsideProgram{t, filepath.Join(parent, "program")}
	if err := os.Mkdir(p.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	imports := "package main\n\n"
	for _, name := range packages {
		imports += "import _ \"" + ours + "/" + name + "\"\n"
	}
	p.write("main.go", string(main))
	p.write("imports.go", imports)
	p.run("go", "mod", "init", "example.com/program")
	return p
}

func (p *outsideProgram) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.folder, name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// run runs a command and returns its output. The command has no C compiler, and ignores the
// settings of the go command that runs this test.
func (p *outsideProgram) run(name string, args ...string) string {
	p.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = p.folder
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOSUMDB=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("%s %q: %v\n%s", name, args, err, &stderr)
	}
	return string(out)
}

// required returns the modules that go.mod requires.
func (p *outsideProgram) required() []string {
	var mod struct{ Require []struct{ Path string } }
	if err := json.Unmarshal([]byte(p.run("go", "mod", "edit", "-json")), &mod); err != nil {
		p.t.Fatal(err)
	}
	var paths []string
	for _, r := range mod.Require {
		paths = append(paths, r.Path)
	}
	return slices.Sorted(slices.Values(paths))
}

// built returns the modules whose packages are linked into the program.
func (p *outsideProgram) built() []string {
	const module = "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}"
	out := p.run("go", "list", "-deps", "-f", module)
	return slices.Compact(slices.Sorted(slices.Values(strings.Fields(out))))
}

// cgo returns the packages, except those of Go itself, that use C if there is a C compiler.
func (p *outsideProgram) cgo() []string {
	const users = "{{if and .CgoFiles (not .Standard)}}{{.ImportPath}}{{end}}"
	out := p.run("env", "CGO_ENABLED=1", "go", "list", "-deps", "-f", users)
	return strings.Fields(out)
}

// vendored returns the modules from which "go mod vendor" copies at least one file.
func (p *outsideProgram) vendored() []string {
	p.run("go", "mod", "vendor")
	vendor := filepath.Join(p.folder, "vendor")
	text, err := os.ReadFile(filepath.Join(vendor, "modules.txt"))
	if err != nil {
		p.t.Fatal(err)
	}
	var paths []string
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if words[0] != "#" {
			continue
		}
		if _, err := os.Stat(filepath.Join(vendor, words[1])); err == nil {
			paths = append(paths, words[1])
		}
	}
	if err := os.RemoveAll(vendor); err != nil { // else the go command would build from it
		p.t.Fatal(err)
	}
	return slices.Compact(slices.Sorted(slices.Values(paths)))
}

// used returns the modules that the program needs, as the go command says. Without -vendor, the
// result would include goleak, which only tests of this module need.
func (p *outsideProgram) used() []string {
	const module = "{{if not .Main}}{{.Path}}{{end}}"
	all := strings.Fields(p.run("go", "list", "-m", "-f", module, "all"))
	if len(all) < 10 {
		p.t.Errorf("go.mod files name only %q: the question is broken", all)
	}
	var paths []string
	args := append([]string{"mod", "why", "-m", "-vendor"}, all...)
	for answer := range strings.SplitSeq(p.run("go", args...), "\n\n") {
		first, reason, _ := strings.Cut(strings.TrimSpace(answer), "\n")
		if !strings.HasPrefix(reason, "(main module does not need") {
			paths = append(paths, strings.TrimPrefix(first, "# "))
		}
	}
	return slices.Sorted(slices.Values(paths))
}
