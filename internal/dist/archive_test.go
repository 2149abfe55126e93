package dist

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// archive returns the directory of the unpacked archive.
func archive(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("CLOUDPROFILER_ARCHIVE")
	if dir == "" {
		t.Skip("no archive given: make test-dist packs one")
	}
	return dir
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func exists(path ...string) bool {
	_, err := os.Stat(filepath.Join(path...))
	return err == nil
}

func names(t *testing.T, path ...string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// run returns what a command of the archive prints. The command does not get this user's
// environment.
func run(t *testing.T, dir, command string, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(dir, "bin", command), args...)
	cmd.Env = []string{"HOME=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s %v: %v: %s", command, args, err, out)
	}
	return string(out)
}

// flagIn says whether a help text explains a flag.
func flagIn(help, flag string) bool {
	explained := regexp.MustCompile(`(?m)^ +(-\w, )?` + regexp.QuoteMeta(flag) + `( |$)`)
	return explained.MatchString(help)
}

// shipped lists the commands for operators. These are all commands except those that only
// developers need.
func shipped(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(names(t, "../../cmd"), func(command string) bool {
		return command == "cp-bench" || command == "cprof-demo"
	})
}

func TestCommandsRun(t *testing.T) {
	dir := archive(t)
	commands := names(t, dir, "bin")
	if want := shipped(t); !slices.Equal(commands, want) {
		t.Fatalf("commands %v, want %v", commands, want)
	}
	for _, c := range commands {
		if said := run(t, dir, c, "--version"); !strings.HasPrefix(said, c+" ") ||
			strings.Count(said, "\n") != 1 {
			t.Errorf("%s --version says %q", c, said)
		}
		if help := run(t, dir, c, "--help"); !strings.Contains(help, "Usage:") ||
			!flagIn(help, "--help") {
			t.Errorf("%s --help says %q", c, help)
		}
	}
}

// Operators copy the archive to every machine, so each command has a limited size.
func TestCommandsAreSmall(t *testing.T) {
	dir := archive(t)
	for _, c := range names(t, dir, "bin") {
		most_bytes := int64(15_000_000)
		if c == "cprof" {
			most_bytes = 25_000_000
		}
		info, err := os.Stat(filepath.Join(dir, "bin", c))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%-10s %5.1f MB, at most %d", c, float64(info.Size())/1e6, most_bytes/1e6)
		if info.Size() > most_bytes {
			t.Errorf("%s has %d bytes, want at most %d: see what it links with go tool nm -size",
				c, info.Size(), most_bytes)
		}
	}
}

// Each command tells from which archive it comes, so that a person who reports a defect can say
// this.
func TestCommandsTellTheirArchive(t *testing.T) {
	dir := archive(t)
	version := strings.TrimPrefix(filepath.Base(dir), "cloudprofiler-")
	version = strings.TrimSuffix(version, "-"+runtime.GOOS+"-"+runtime.GOARCH)
	for _, c := range names(t, dir, "bin") {
		if said := run(t, dir, c, "--version"); !strings.HasPrefix(said, c+" "+version+" ") {
			t.Errorf("%s --version says %q, not %q", c, said, version)
		}
	}
}

// The commands need only the C library and libzmq, which is the one package that the documents tell
// users to install.
func TestCommandsNeedOnePackage(t *testing.T) {
	dir := archive(t)
	for _, c := range names(t, dir, "bin") {
		f, err := elf.Open(filepath.Join(dir, "bin", c))
		if err != nil {
			t.Fatal(err)
		}
		libraries, err := f.ImportedLibraries()
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range libraries {
			if l != "libzmq.so.5" && !strings.HasPrefix(l, "libc.so.") &&
				!strings.HasPrefix(l, "ld-linux") {
				t.Errorf("%s needs %s", c, l)
			}
		}
	}
	for _, page := range []string{"docs/operating.md", "Containerfile"} {
		if !strings.Contains(read(t, dir, page), "libzmq5") {
			t.Errorf("%s does not install libzmq5", page)
		}
	}
}

// A shell finds a completion file by the command's name. The completion asks the command itself for
// the words.
func TestCompletions(t *testing.T) {
	dir := archive(t)
	for _, c := range names(t, dir, "bin") {
		for shell, file := range map[string]string{"bash": c, "zsh": "_" + c, "fish": c + ".fish"} {
			text := read(t, dir, "completions", shell, file)
			if !strings.Contains(text, c) || !strings.Contains(text, "__complete") {
				t.Errorf("completions/%s/%s does not complete %s", shell, file, c)
			}
			path, err := exec.LookPath(shell)
			if err != nil {
				continue // without this shell, the test only reads the completion's text
			}
			cmd := exec.Command(path, "-n", filepath.Join(dir, "completions", shell, file))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s refuses completions/%s/%s: %v: %s", shell, shell, file, err, out)
			}
		}
	}
	words := run(t, dir, "cprof", "__complete", "nodes", "--sw")
	if !strings.Contains(words, "--sweep") {
		t.Errorf("cprof nodes --sw is completed to %q", words)
	}
	words = run(t, dir, "tsc-server", "__complete", "--client")
	if !strings.Contains(words, "--client-keys") {
		t.Errorf("tsc-server --client is completed to %q", words)
	}
}

const installed = "/usr/local/bin/"

func TestUnitsStartWhatIsThere(t *testing.T) {
	dir := archive(t)
	started := map[string]bool{}
	var units []string
	for _, unit := range names(t, dir, "systemd") {
		text := read(t, dir, "systemd", unit)
		line, _, _ := strings.Cut(text[strings.Index(text, "\nExecStart=")+1:], "\n")
		words := strings.Fields(strings.TrimPrefix(line, "ExecStart="))
		command, found := strings.CutPrefix(words[0], installed)
		if !found || unit != command+".service" {
			t.Errorf("%s: %q: want %s and the unit's name", unit, line, installed)
			continue
		}
		started[command] = true
		help := run(t, dir, command, "--help")
		for i, w := range words[1:] {
			switch {
			case strings.HasPrefix(w, "-"):
				if !flagIn(help, w) {
					t.Errorf("%s: %s has no flag %s", unit, command, w)
				}
			case words[i] == "--config":
				if name := filepath.Base(w); !exists(dir, "configs", name) {
					t.Errorf("%s: there is no example of %s", unit, w)
				}
			}
		}
		// systemd reads a copy of the unit in which the command has its path in the archive.
		copied := filepath.Join(t.TempDir(), unit)
		present := strings.ReplaceAll(text, installed, filepath.Join(dir, "bin")+"/")
		if err := os.WriteFile(copied, []byte(present), 0o600); err != nil {
			t.Fatal(err)
		}
		units = append(units, copied)
	}
	for _, daemon := range shipped(t) {
		if !strings.HasPrefix(daemon, "cprof") && !started[daemon] {
			t.Errorf("no unit starts %s", daemon)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Fatalf("%v: it is of Debian's package systemd", err)
	}
	args := append([]string{"verify", "--man=no", "--recursive-errors=no"}, units...)
	if out, err := exec.Command(analyze, args...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v: %s", err, out)
	}
}

func TestContainerFileCopiesWhatIsThere(t *testing.T) {
	dir := archive(t)
	copies, entry := 0, false
	for line := range strings.Lines(read(t, dir, "Containerfile")) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "COPY":
			for _, source := range words[1 : len(words)-1] {
				copies++
				if !exists(dir, source) {
					t.Errorf("%q: not in the archive", strings.TrimSpace(line))
				}
			}
		case "CMD", "ENTRYPOINT":
			entry = true
			command := strings.Trim(words[1], `[",]`)
			if !exists(dir, "bin", command) {
				t.Errorf("%q: no such command", strings.TrimSpace(line))
			}
		}
	}
	if copies == 0 || !entry {
		t.Errorf("Containerfile copies %d things, entry %v: the test does not understand it",
			copies, entry)
	}
}

var (
	link     = regexp.MustCompile(`\]\(([^)#: ]+)[^)]*\)`)
	fileWord = regexp.MustCompile(`(?:^|[\s\x60])` +
		`((?:configs|systemd|bin|completions|java)/\S*|Containerfile)`)
)

// The archive has all files that its documents name: the files in commands that operating.md and
// java-agent.md show, and the pages and formats to which any page links. Only source files are not
// in the archive.
func TestDocumentsPointAtWhatIsThere(t *testing.T) {
	dir := archive(t)
	for _, page := range []string{"docs/operating.md", "docs/java-agent.md"} {
		for _, match := range fileWord.FindAllStringSubmatch(read(t, dir, page), -1) {
			pattern := strings.Trim(match[1], "`,.;):")
			found, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil || len(found) == 0 {
				t.Errorf("%s names %s, which is not there", page, pattern)
			}
		}
	}
	pages, err := filepath.Glob(filepath.Join(dir, "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, page := range pages {
		for _, match := range link.FindAllStringSubmatch(read(t, page), -1) {
			switch filepath.Ext(match[1]) {
			case ".md", ".yaml", ".json", ".svg", ".png":
				if !strings.Contains(match[1], "examples/") && !exists(dir, "docs", match[1]) {
					t.Errorf("docs/%s points at %s, which is not there", filepath.Base(page),
						match[1])
				}
			}
		}
	}
}
