package house

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
)

// versionIn says, for each place where a format is described, which text of which file has the
// format's version. %s is the version.
var versionIn = map[string][2]string{
	"ring/FORMAT.md":                  {"ring/layout.go", "version, firstVersion = %s,"},
	"logstore/FORMAT.md":              {"logstore/header.go", "const Version = %s\n"},
	"tscratio/FORMAT.md":              {"tscratio/file.go", "fileVersion  = %s\n"},
	"runs/FORMAT.md":                  {"runs/run.go", "const Version = %s\n"},
	"report/export/FORMAT.md":         {"report/export/tables.go", `const version = "%s"`},
	"report/FORMAT.md":                {"report/data.go", "const Version = %s\n"},
	"explore/FORMAT.md":               {"explore/meta.go", "const Version = %s\n"},
	"handlertable/FORMAT.md":          {"handlertable/yaml.go", "const Version = %s\n"},
	"sim/FORMAT.md":                   {"sim/checkpoint.go", "checkpointVersion = %s\n"},
	"coordinator/FORMAT.md":           {"coordinator/journal.go", "Version: %s}"},
	"minrtt/FORMAT.md":                {"minrtt/packet.go", "version = %s\n"},
	"control/FORMAT.md":               {"control/codec.go", "Current = Version{%s}"},
	"overlay/wire/FORMAT.md":          {"overlay/wire/socket.go", "version = %s\n"},
	"returntrip/FORMAT.md":            {"returntrip/packet.go", "version    = %s\n"},
	"generator/FORMAT.md":             {"generator/wire.go", "wireVersion = %s\n"},
	"vnode/FORMAT.md":                 {"vnode/config.go", "const Version = %s\n"},
	"placement/job/FORMAT.md":         {"placement/job/file.go", "const Version = %s\n"},
	"examples/adstream/job/FORMAT.md": {"examples/adstream/job/placement.go", "p.Version != %s "},
	"agent/FORMAT.md":                 {"agent/state.go", "const stateVersion = %s\n"},
	"replay/question/wire/doc.go":     {"replay/question/wire/wire.go", "const Version = %s\n"},
	"sim/cluster/doc.go":              {"sim/cluster/worker.go", "const Version = %s\n"},

	// The first two of these formats have their version in the name of the channel, and the third
	// has it in its first field.
	"blackbox/FORMAT.md": {"blackbox/event.go", `Channel = "capture/messages"`},
	"sdk/java/cloudprofiler-javaagent/FORMAT.md": {"analysis/pauses.go",
		`pausePoint = "jvm-pauses"`},
	"replay/clock/FORMAT.md": {"replay/clock/encode.go", "bad := width > 64"},

	// This format has no version, because the testbed reads only what it has written itself.
	"examples/blackbox/FORMAT.md": {},
}

var formatRow = regexp.MustCompile(`(?m)^\| [^|]+ \| ([^|]+) \| \[[^\]]+\]\(\.\./([^)]+)\) \|`)

// formatsSayTheirVersion is the rule that the table of formats in docs/architecture.md has each
// FORMAT.md, and the version that both the FORMAT.md and the code have.
func formatsSayTheirVersion(_ *testing.T, files []file) []finding {
	const table = "docs/architecture.md"
	var found []finding
	report := func(path, format string, args ...any) {
		found = append(found, finding{path, fmt.Sprintf(format, args...)})
	}
	page, _ := find(files, table)
	rows := map[string]string{}
	for _, m := range formatRow.FindAllStringSubmatch(string(page.text), -1) {
		rows[m[2]] = m[1]
	}
	for _, f := range files {
		in, known := versionIn[f.path]
		row, listed := rows[f.path]
		if path.Base(f.path) != "FORMAT.md" && !known {
			continue
		}
		if !known || !listed {
			report(f.path, "%s or the test does not say which version the format has", table)
			continue
		}
		if in[0] == "" {
			continue
		}
		version, _, _ := strings.Cut(row, ",")
		said := regexp.MustCompile("(?i)version:? " + regexp.QuoteMeta(version) + `\b`)
		if path.Base(f.path) == "FORMAT.md" && !said.Match(f.text) {
			report(f.path, "it does not say version %s, as %s does", version, table)
		}
		text := in[1]
		if strings.Contains(text, "%s") {
			text = fmt.Sprintf(text, strings.ReplaceAll(version, ".", ", "))
		}
		if code, _ := find(files, in[0]); !strings.Contains(string(code.text), text) {
			report(f.path, "%s has version %s, and %s lacks %q", table, version, in[0], text)
		}
	}
	return found
}

func TestFormatsSayTheirVersion(t *testing.T) { check(t, formatsSayTheirVersion) }

func TestVersionRuleFinds(t *testing.T) {
	page := file{path: "docs/architecture.md", text: []byte(
		"| ring | 3 | [ring](../ring/FORMAT.md) | code |\n" +
			"| index | 5 | [explore](../explore/FORMAT.md) | code |\n")}
	code := file{path: "ring/layout.go", text: []byte("version, firstVersion = 3, 1")}
	index := file{path: "explore/meta.go", text: []byte("const Version = 6\n")}
	for name, test := range map[string]struct {
		format file
		want   int
	}{
		"right":             {file{path: "ring/FORMAT.md", text: []byte("version 3")}, 0},
		"no version":        {file{path: "ring/FORMAT.md", text: []byte("words")}, 1},
		"another in code":   {file{path: "explore/FORMAT.md", text: []byte("version 5")}, 1},
		"another in format": {file{path: "ring/FORMAT.md", text: []byte("version 30")}, 1},
		"no row":            {file{path: "new/FORMAT.md", text: []byte("version 1")}, 1},
	} {
		files := []file{page, code, index, test.format}
		if found := formatsSayTheirVersion(t, files); len(found) != test.want {
			t.Errorf("%s: %v", name, found)
		}
	}
}
