package dist

import (
	"archive/zip"
	"crypto/sha1"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// TestBarMaven lays out the Java library for Maven Central, and checks what Central demands:
// sources, documentation, checksums and the content of a POM. It does not check signatures.
func TestBarMaven(t *testing.T) {
	if proof.Begin(t) != proof.Full {
		t.Skip("make prove lays the library out for Maven Central")
	}
	lacks := proof.Bar{Name: "what the layout for Maven Central lacks, except signatures",
		Unit: "things"}
	file := filepath.Join(t.TempDir(), "m.zip")
	if out, err := exec.Command("../../scripts/maven", file).CombinedOutput(); err != nil {
		lacks.Absent = fmt.Sprintf("scripts/maven: %v: %s", err, out)
		proof.Check(t, lacks)
		return
	}
	all, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	texts := map[string]string{}
	for _, f := range all.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		r.Close()
		if err != nil {
			t.Fatal(err)
		}
		texts[f.Name] = string(text)
	}
	lack := func(format string, args ...any) {
		lacks.Figure++
		t.Logf("lacks: "+format, args...)
	}
	poms := 0
	for name, text := range texts {
		switch filepath.Ext(name) {
		case ".pom":
			poms++
			for _, tag := range []string{"<name>", "<description>", "<version>"} {
				if !strings.Contains(text, tag) {
					lack("%s has no %s", name, tag)
				}
			}
			for _, tag := range []string{"<url>", "<license>", "<developer>", "<scm>"} {
				if !strings.Contains(text, "<parent>") && !strings.Contains(text, tag) {
					lack("%s has no %s", name, tag)
				}
			}
			if base, _ := strings.CutSuffix(name, ".pom"); !strings.Contains(name, "-parent") {
				for _, suffix := range []string{".jar", "-sources.jar", "-javadoc.jar"} {
					if texts[base+suffix] == "" {
						lack("%s", base+suffix)
					}
				}
			}
			fallthrough
		case ".jar":
			if sum := fmt.Sprintf("%x", sha1.Sum([]byte(text))); texts[name+".sha1"] != sum ||
				len(texts[name+".md5"]) != 32 {
				lack("checksums of %s", name)
			}
		}
	}
	if poms != 3 {
		lack("%d of 3 POMs", 3-poms)
	}
	proof.Check(t, lacks)
}
