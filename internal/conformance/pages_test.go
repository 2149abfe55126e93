package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/ring"
)

// examples returns a page's code blocks in one language.
func examples(t *testing.T, page, language string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash("../../" + page))
	if err != nil {
		t.Fatal(err)
	}
	for _, rest := range strings.Split(string(text), "\n```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(rest, "\n```\n")
		all = append(all, block)
	}
	if len(all) == 0 {
		t.Fatalf("%s has no example in %s", page, language)
	}
	return all
}

// The examples in the pages compile, open the channels that they name, and log an event.
func TestExamplesOfThePages(t *testing.T) {
	for _, test := range []struct {
		page, language string
		program        func(t *testing.T, examples []string) (build *exec.Cmd, program string)
		channels       []string
	}{
		{"docs/instrumenting.md", "go", goProgram, []string{"parser#0~start"}},
		{"docs/instrumenting.md", "c", cProgram, []string{"parser#0~end", "parser#0~start"}},
		{"sdk/c/README.md", "c", cProgram, []string{"parser#0~start"}},
	} {
		t.Run(test.page+" "+test.language, func(t *testing.T) {
			build, program := test.program(t, examples(t, test.page, test.language))
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			rings := t.TempDir()
			run := exec.Command(program)
			run.Env = append(os.Environ(), "CLOUDPROFILER_DIR="+rings)
			if out, err := run.CombinedOutput(); err != nil || len(out) > 0 {
				t.Fatalf("%v: it says %q", err, out)
			}
			files, err := ring.Files(rings)
			if err != nil || len(files) != len(test.channels) {
				t.Fatalf("rings %q, %v", files, err)
			}
			for i, path := range files {
				if name, _, _ := strings.Cut(filepath.Base(path), "."); name != test.channels[i] {
					t.Errorf("ring %q, want %q", path, test.channels[i])
				}
				r, err := ring.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				state, err := r.State(0)
				if want := uint64(strings.Count(test.channels[i], "start")); err != nil ||
					state.Tail != want {
					t.Errorf("%s holds %d events, want %d, %v", path, state.Tail, want, err)
				}
				r.Close()
			}
		})
	}
}

// goProgram makes a program from a page's examples. The first example contains the import. All
// others go into main.
func goProgram(t *testing.T, examples []string) (*exec.Cmd, string) {
	t.Helper()
	imports, body, _ := strings.Cut(strings.Join(examples, "\n"), "\n\n")
	source, program := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), "program")
	text := fmt.Sprintf("package main\n\nimport \"log\"\n%s\n\nvar tuple struct{ ID uint64 "+
		"}\n\nfunc main() {\n%s\n}\n", imports, body)
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return exec.Command("go", "build", "-o", program, source), program
}

// cProgram makes a program from a page's examples. The first example contains the includes. All
// others go into main.
func cProgram(t *testing.T, examples []string) (*exec.Cmd, string) {
	t.Helper()
	includes, body, _ := strings.Cut(strings.Join(examples, "\n"), "\n\n")
	source, program := filepath.Join(t.TempDir(), "main.c"), filepath.Join(t.TempDir(), "program")
	text := fmt.Sprintf("%s\n#include <stdio.h>\n\nint main(void)\n{\nuint64_t tuple_id = "+
		"1;\n%s\nreturn 0;\n}\n", includes, body)
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(buildC(t), "libcloudprofiler.a")
	return exec.Command("gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-variable",
		"-I", "../../sdk/c/include", "-o", program, source, library, "-pthread"), program
}
