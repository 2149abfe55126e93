package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

var (
	update = flag.Bool("update", false, "write the golden files anew, and the types for TypeScript")
	pages  = flag.String("pages", "", "write sample pages into this directory, for the "+
		"browser's tests")
)

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the code writes; see whether that is right and run: go test "+
			"./report -update\n%s", name, cmp.Diff(string(want), string(got)))
	}
}

func written(t *testing.T, d *Data) string {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, d); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

var element = regexp.MustCompile(`(?s)<script id="data" type="application/json">(.*?)</script>`)

// embeddedData returns what a browser takes as the data: everything up to the first end tag of the
// script element.
func embeddedData(t *testing.T, page string) []byte {
	t.Helper()
	found := element.FindStringSubmatch(page)
	if found == nil {
		t.Fatal("the page has no data element")
	}
	return []byte(found[1])
}

func TestSampleIsGolden(t *testing.T) {
	d := sampleData(sampleSeed)
	fillSlices(reflect.ValueOf(d).Elem())
	text, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	// With one number on each line the file would be long, so a list of numbers is on one line.
	text = regexp.MustCompile(`\n +(-?[\d.e-]+|null)(,?)`).ReplaceAll(text, []byte("$1$2"))
	golden(t, "testdata/sample.json", append(text, '\n'))
}

func TestPageIsDeterministic(t *testing.T) {
	first, second := written(t, sampleData(sampleSeed)), written(t, sampleData(sampleSeed))
	if first != second {
		t.Error("the same data gave two pages")
	}
}

func TestPageCarriesItsData(t *testing.T) {
	d := sampleData(seed.Of(t))
	var got Data
	if err := json.Unmarshal(embeddedData(t, written(t, d)), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, &got); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

func TestPageIsSmall(t *testing.T) {
	if size := len(written(t, largeData(sampleSeed))); size > MaxBytes {
		t.Errorf("a large run's page has %d bytes, more than %d", size, MaxBytes)
	} else {
		t.Logf("large run: %d bytes, sample: %d, without data: %d",
			size, len(written(t, sampleData(sampleSeed))), len(page))
	}
	d := sampleData(sampleSeed)
	d.Run.Note = strings.Repeat("x", MaxBytes)
	if err := Write(new(bytes.Buffer), d); !errors.Is(err, ErrData) {
		t.Errorf("a page above the limit: error %v, want ErrData", err)
	}
}

// No text of a run can end the element that contains the data. Tests in a browser check what the
// page shows for such texts.
func TestHostileNamesStayData(t *testing.T) {
	d := hostileData(sampleSeed)
	page := written(t, d)
	var got Data
	if err := json.Unmarshal(embeddedData(t, page), &got); err != nil {
		t.Fatalf("the data element ends early: %v", err)
	}
	if got.Run.Name != d.Run.Name {
		t.Errorf("name %q came back as %q", d.Run.Name, got.Run.Name)
	}
	harmless := written(t, sampleData(sampleSeed))
	for _, mark := range []string{"<script", "</script", "<!--", "<img"} {
		if n, want := strings.Count(page, mark), strings.Count(harmless, mark); n != want {
			t.Errorf("%q stands %d times in the page, %d times in one with harmless names",
				mark, n, want)
		}
	}
}

// The page fetches nothing: it contains no addresses except the names of XML's formats, and its
// policy forbids every request.
func TestPageAsksNoNetwork(t *testing.T) {
	text := string(page)
	if !strings.Contains(text, `default-src 'none'`) {
		t.Error("no content security policy that forbids requests")
	}
	addresses := regexp.MustCompile(`(https?:)?//[a-z0-9-]+\.[a-z0-9.-]+`)
	for _, address := range addresses.FindAllString(text, -1) {
		if !strings.Contains(address, "www.w3.org") {
			t.Errorf("the page names the address %q", address)
		}
	}
	for _, call := range []string{"fetch(", "XMLHttpRequest", "WebSocket", "sendBeacon",
		"import("} {
		if strings.Contains(text, call) {
			t.Errorf("the page can call %s", call)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	for name, spoil := range map[string]func(*Data){
		"another version":    func(d *Data) { d.Version++ },
		"a span turned over": func(d *Data) { d.Spans[0].Mean = Interval{2, 1} },
		"a percentile too":   func(d *Data) { d.Spans[0].Percentiles[0] = Percentile{0, 2, 1} },
		"a short column":     func(d *Data) { d.Throughput[0].Count = d.Throughput[0].Count[1:] },
		"a number too large": func(d *Data) { d.Spans[0].Mean = Interval{0, 1<<53 + 1} },
		"no number":          func(d *Data) { d.Reference.Lo_hz /= 0 * d.Reference.Hi_hz },
		"buckets of nothing": func(d *Data) { d.Timeline.Bucket_cycles = 0 },
		"a path of none":     func(d *Data) { d.Paths[0].Made_of = []int{1} },
		"one id twice":       func(d *Data) { d.Spans[1].ID = d.Spans[0].ID },
	} {
		t.Run(name, func(t *testing.T) {
			d := sampleData(sampleSeed)
			spoil(d)
			if err := d.Check(); !errors.Is(err, ErrData) {
				t.Errorf("error %v, want ErrData", err)
			}
		})
	}
	if err := sampleData(seed.Of(t)).Check(); err != nil {
		t.Errorf("the sample: %v", err)
	}
}

func TestWriteSamplePages(t *testing.T) {
	if *pages == "" {
		t.Skip("for the browser's tests: name a directory with -pages")
	}
	partial := sampleData(sampleSeed) // the bounds hold, and a part of the run is missing
	partial.Verdict, partial.Undecided, partial.Paths[0].Slowest[0].Surely = Consistent, nil, true
	// The tuples of this path were made of windows of other tuples.
	digests := Path{Begins: []string{"digest"}, Ends: []string{"digest"}, Points: "digest/start",
		Tuples: 2300, Made_of: []int{0}, Of: "2300 tuples that were made of others"}
	partial.Actors = append(partial.Actors, Actor{"digest", []string{"edge"}, 4600})
	partial.Paths = append(partial.Paths, digests)
	partial.Totals.Tuples += 2300
	answered := sampleData(sampleSeed) // the second operator answers the first
	request := slices.IndexFunc(answered.Spans, func(s Span) bool { return s.Kind == "transfer" })
	response := answered.Spans[request]
	response.ID, response.From, response.To = "response", response.To, response.From
	response.Name = response.From + " → " + response.To
	answered.Spans = append(answered.Spans, response)
	for name, d := range map[string]*Data{
		"partial": partial, "answered": answered, "past": pastData(false), "short": pastData(true),
		"sample": sampleData(sampleSeed), "empty": emptyData(), "hostile": hostileData(sampleSeed),
		"large": largeData(sampleSeed), "messages": messagesData(),
	} {
		if err := os.WriteFile(filepath.Join(*pages, name+".html"), []byte(written(t, d)),
			0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// An end of an interval that JSON cannot represent exactly is rounded outward, to the nearest
// number that JSON can represent.
func TestRoundedOutward(t *testing.T) {
	rng := seed.Random(t)
	for i := range 20_000 {
		v := int64(rng.Uint64() >> rng.UintN(64))
		if i%2 == 0 {
			v = -v
		}
		down, up := roundDown(v), roundUp(v)
		if down > v || int64(float64(down)) != down ||
			v < 1<<62 && (up < v || int64(float64(up)) != up) {
			t.Fatalf("%d goes to %d and %d", v, down, up)
		}
		if width := up - down; v > -maxExact && v < maxExact && width != 0 || width > 1<<11 {
			t.Fatalf("%d goes to %d and %d", v, down, up)
		}
	}
}
