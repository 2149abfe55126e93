package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/replay"
)

var pages = flag.String("pages", "", "write sample pages into this directory")

const trace = "../testdata/thesis.txt"

func history(t *testing.T) *replay.History {
	t.Helper()
	f, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := replay.ReadTrace(f)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestPageHasTheOrderOfTheHistory(t *testing.T) {
	h := history(t)
	d := Of(h, nil, Options{Title: "</script><b>"})
	var text bytes.Buffer
	if err := Write(&text, d); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(text.String(), `<script id="data" type="application/json">`)
	in, _, found := strings.Cut(rest, "</script>")
	var back Data
	if err := json.Unmarshal([]byte(in), &back); err != nil || !found {
		t.Fatalf("the page's data: %v", err)
	}
	if back.Title != "</script><b>" || back.Timed {
		t.Errorf("title %q, timed %v", back.Title, back.Timed)
	}
	// Read Need as the page does. The result must say the same as the history about which event is
	// before which.
	n := len(h.Nodes)
	last, count := make([][]int, n), make([]int, n)
	place := make([]int, len(h.Events))
	for i := range h.Events {
		node := int(h.Events[i].Node)
		need := append([]int(nil), last[node]...)
		if need == nil {
			need = make([]int, n)
		}
		for _, pair := range back.Need[i] {
			need[pair[0]] = pair[1]
		}
		last[node], place[i] = need, count[node]
		count[node]++
		for j := range i {
			other := int(h.Events[j].Node)
			if other != node && (need[other] > place[j]) != h.Before(j, i) {
				t.Errorf("events %d and %d: before is %v", j, i, h.Before(j, i))
			}
		}
	}
}

func TestPageRefusesTooManyEvents(t *testing.T) {
	d := &Data{Events: make([][5]any, MaxEvents+1)}
	if err := Write(&bytes.Buffer{}, d); !errors.Is(err, ErrTooMany) {
		t.Errorf("%v, want %v", err, ErrTooMany)
	}
}

// The tests of the page in a browser open these pages.
func TestWriteSamplePages(t *testing.T) {
	if *pages == "" {
		t.Skip("with -pages DIRECTORY it writes pages")
	}
	h := history(t)
	d := Of(h, nil, Options{
		Title: "thesis", Orders: "many orders", Question: "held > 1", Found: []int{0, 2, 1},
		States: []string{"held"}, Values: [][]string{{"0"}, {"1"}, {"2"}},
	})
	hostile := Of(h, nil, Options{Title: "</script><img src=x onerror=alert(1)>",
		Notes: []string{"<script>alert(1)</script>"}})
	hostile.Nodes = append([]string(nil), hostile.Nodes...)
	hostile.Nodes[0] = "<b>node</b>"
	timed := *d
	timed.Timed, timed.Hz, timed.Events = true, 2.4e9, nil
	timed.Summary = &replay.Summary{Bound_cycles: 1663} // 692.9 ns
	for i, e := range d.Events {
		timed.Events = append(timed.Events, [5]any{e[0], e[1], e[2], 24_000 * i, 24_000*i + 5_000})
	}
	for name, d := range map[string]*Data{"replay": d, "replay-hostile": hostile,
		"replay-timed": &timed} {
		var text bytes.Buffer
		if err := Write(&text, d); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(*pages, name+".html")
		if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
