package house

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

var fingerprint = regexp.MustCompile(`Source sha256: ([0-9a-f]{64})`)

// The embedded pages were built from the present source in web/. make test-web checks that the
// build gives exactly these bytes.
func TestPagesAreBuiltFromTheirSource(t *testing.T) {
	const web = "../../web"
	sources, err := filepath.Glob(web + "/src/*")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"build.mjs", "package-lock.json"}
	for _, s := range sources {
		names = append(names, "src/"+filepath.Base(s))
	}
	slices.Sort(names)
	hash := sha256.New()
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(web, name))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(hash, "%s\n%s\n", name, text)
	}
	want := hex.EncodeToString(hash.Sum(nil))
	for _, page := range []string{"report/page.html", "explore/page.html",
		"replay/page/page.html"} {
		text, err := os.ReadFile(filepath.Join("../..", page))
		if err != nil {
			t.Fatal(err)
		}
		if found := fingerprint.FindSubmatch(text); found == nil || string(found[1]) != want {
			t.Errorf("%s was built from another source than that with sha256 %s: run make web",
				page, want)
		}
	}
}
