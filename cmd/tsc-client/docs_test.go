package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/cli"
)

// With the keys that "cprof keys" makes, tsc-client accepts both the command line that "cprof keys"
// prints and the file that docs/operating.md shows.
func TestKeysGoWhereItIsSaid(t *testing.T) {
	dir := t.TempDir()
	said := func(args ...string) string {
		var out bytes.Buffer
		if code := cli.Run(t.Context(), append(args, "--dir", dir), &out, &out); code != 0 {
			t.Fatalf("cprof %v: exit code %d: %s", args, code, out.String())
		}
		return out.String()
	}
	said("keys", "server")
	usable := func(what string, args ...string) {
		var out bytes.Buffer
		if code := program.Run(t.Context(), append(args, "--check"), &out, &out); code != 0 {
			t.Errorf("%s: tsc-client %v: exit code %d: %s", what, args, code, out.String())
		}
	}

	_, command, found := strings.Cut(said("keys", "client", "beta"), "\n  tsc-client ")
	if !found {
		t.Fatal("cprof keys client names no command")
	}
	command = strings.NewReplacer("SERVER", "192.0.2.1",
		"beta.secret", filepath.Join(dir, "beta.secret"),
		"server.public", filepath.Join(dir, "server.public")).Replace(command)
	usable("cprof keys client", strings.Fields(command)...)

	page, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "tsc-client.yaml <<'END'\n")
	text, _, ended := strings.Cut(text, "\nEND\n")
	if !found || !ended {
		t.Fatal("docs/operating.md has no configuration of a tsc-client")
	}
	file := filepath.Join(t.TempDir(), "tsc-client.yaml")
	text = strings.ReplaceAll(text, "/etc/cloudprofiler", dir)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	usable("docs/operating.md", "--config", file)
}

// A firewall opens one port for probes, so every page and example names the same port.
func TestProbesHaveOnePort(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"configs/*.yaml", "docs/*.md", "packaging/*", "README.md"} {
		found, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	named := regexp.MustCompile(`(?:probes|advertise): +[0-9.]+:([1-9][0-9]*)`)
	count := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			continue // a directory
		}
		for _, match := range named.FindAllStringSubmatch(string(text), -1) {
			if count++; match[1] != "7341" {
				t.Errorf("%s: %q: want port 7341, as everywhere", page, match[0])
			}
		}
	}
	if count < 5 {
		t.Errorf("%d addresses of probes found: the test does not see them", count)
	}
}
