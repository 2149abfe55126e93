package proof

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestVerdict(t *testing.T) {
	tests := map[string]struct {
		bar  Bar
		want Verdict
	}{
		"below a ceiling":  {Bar{Figure: 1.1, Limit: 1.12}, Reached},
		"on a ceiling":     {Bar{Figure: 1.12, Limit: 1.12}, Reached},
		"above a ceiling":  {Bar{Figure: 1.13, Limit: 1.12}, Missed},
		"above a floor":    {Bar{Figure: 2.1, Limit: 2, AtLeast: true}, Reached},
		"on a floor":       {Bar{Figure: 2, Limit: 2, AtLeast: true}, Reached},
		"below a floor":    {Bar{Figure: 1.9, Limit: 2, AtLeast: true}, Missed},
		"none allowed":     {Bar{Figure: 1, Limit: 0}, Missed},
		"no number":        {Bar{Figure: math.NaN(), Limit: 2}, Missed},
		"no number, floor": {Bar{Figure: math.NaN(), Limit: 2, AtLeast: true}, Missed},
		"not measured":     {Bar{Limit: 2, Absent: "needs root"}, Absent},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.bar.Verdict(); got != test.want {
				t.Errorf("%+v: %s, want %s", test.bar, got, test.want)
			}
		})
	}
}

func TestOnlyAFullRunJudgesTimings(t *testing.T) {
	timing, promise := Bar{Name: "a call", Timing: true}, Bar{Name: "lost"}
	for size, want := range map[Size]bool{None: false, Small: false, Full: true} {
		if got := timing.Judged(size); got != want {
			t.Errorf("timing at size %q: judged %v, want %v", size, got, want)
		}
		if !promise.Judged(size) {
			t.Errorf("a promise at size %q is not judged", size)
		}
	}
}

func TestFromRepetitions(t *testing.T) {
	tests := map[string]struct {
		repetitions []float64
		figure      float64
		spread      [2]float64
	}{
		"one":  {[]float64{7}, 7, [2]float64{7, 7}},
		"odd":  {[]float64{9, 1, 2}, 2, [2]float64{1, 9}},
		"even": {[]float64{9, 1, 2, 4}, 3, [2]float64{1, 9}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := fmt.Sprint(test.repetitions)
			got := Bar{Name: "x"}.From(test.repetitions)
			if got.Figure != test.figure || got.Spread != test.spread ||
				got.Reps != len(test.repetitions) {
				t.Errorf("From(%v) = %+v", test.repetitions, got)
			}
			if after := fmt.Sprint(test.repetitions); after != before {
				t.Errorf("From reordered its argument: %s, was %s", after, before)
			}
		})
	}
	if got := (Bar{Name: "x"}).From(nil); got.Verdict() != Absent {
		t.Errorf("From(nil) = %+v, want absent", got)
	}
}

// Read returns the bars that Report wrote. If the environment variable is not set, Report writes
// nothing.
func TestReportIsReadBack(t *testing.T) {
	t.Setenv(fileVariable, "")
	if err := Report(Bar{}); err != nil {
		t.Errorf("nobody listens: %v", err)
	}
	name := filepath.Join(t.TempDir(), "bars")
	t.Setenv(fileVariable, name)
	want := []Bar{
		Bar{Name: "a", Limit: 1.5, Unit: "× rdtscp"}.From([]float64{1, 2, 4}),
		{Name: "b", Figure: 8, Limit: 2, AtLeast: true, Unit: "GB/s"},
		{Name: "c", Limit: 2, Unit: "µs", Absent: "needs root"},
	}
	if err := Report(want[0]); err != nil {
		t.Fatal(err)
	}
	if err := Describe("| table |\n"); err != nil {
		t.Fatal(err)
	}
	if err := Report(want[1:]...); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	got, described, err := Read(bytes.NewReader(text))
	if err != nil || !reflect.DeepEqual(got, want) || described != "| table |\n" {
		t.Errorf("Read = %+v, %q, %v, want %+v", got, described, err, want)
	}
	for _, bad := range []Bar{{}, {Name: "x", Figure: math.NaN()},
		{Name: "x", Limit: math.Inf(1)}} {
		if err := Report(bad); err == nil {
			t.Errorf("Report(%+v) took it", bad)
		}
	}
}

var refused = map[string]string{
	"not JSON":              `name`,
	"no name":               `{"figure":1}`,
	"unknown field":         `{"name":"x","figures":1}`,
	"outside its spread":    `{"name":"x","figure":1,"reps":2,"spread":[2,3]}`,
	"negative repetitions":  `{"name":"x","reps":-1}`,
	"two on a line":         `{"name":"x"} {"name":"y"}`,
	"an empty line":         "{\"name\":\"x\"}\n\n",
	"a number out of range": `{"name":"x","figure":1e999}`,
	"torn":                  `{"name":"x","fig`,
	"a bar with a text":     `{"name":"x","text":"y"}`,
}

func TestReadRefuses(t *testing.T) {
	for name, text := range refused {
		t.Run(name, func(t *testing.T) {
			bars, _, err := Read(strings.NewReader(text))
			if err == nil {
				t.Fatalf("Read(%q) = %+v", text, bars)
			}
			if !strings.HasPrefix(err.Error(), "read bars: line ") {
				t.Errorf("error %q does not say which line", err)
			}
		})
	}
}

// If Read accepts a bar, the bar can be reported and read again without a change. It also has a
// verdict, and a page can show it.
func FuzzRead(f *testing.F) {
	for _, text := range refused {
		f.Add([]byte(text))
	}
	f.Add([]byte(`{"text":"| a |\n"}`))
	f.Add([]byte(`{"name":"x","figure":2,"limit":3,"unit":"µs","reps":2,"spread":[1,3]}` + "\n" +
		`{"name":"y","absent":"no | root"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		bars, said, err := Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		name := filepath.Join(t.TempDir(), "bars")
		t.Setenv(fileVariable, name)
		if err := Report(bars...); err != nil {
			t.Fatalf("Report refuses what Read took: %v", err)
		}
		if said != "" {
			if err := Describe(said); err != nil {
				t.Fatal(err)
			}
		}
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		again, saidAgain, err := Read(bytes.NewReader(file))
		if err != nil || !reflect.DeepEqual(again, bars) || saidAgain != said {
			t.Fatalf("read %+v, %q, then %+v, %q, %v", bars, said, again, saidAgain, err)
		}
		record := Record{Results: []Result{{Name: "fuzz", Bars: bars}}}
		rows := 0
		for line := range strings.Lines(record.Markdown()) {
			if strings.HasPrefix(line, "| ") && strings.HasSuffix(line, " |\n") {
				rows++
			}
		}
		if want := len(bars) + 6; len(bars) > 0 && rows != want { // four facts and a table's head
			t.Fatalf("the page has %d rows, want %d:\n%s", rows, want, record.Markdown())
		}
	})
}

func sampleRecord() Record {
	return Record{
		Begun: time.Date(2026, 3, 1, 23, 30, 0, 0, time.FixedZone("", -3600)), Size: Full,
		Commit: "0123456789ab",
		Machine: Machine{CPU: "Example | CPU", Cores: 2, Kernel: "6.18", System: "Debian",
			Go: "go1.26 linux/amd64"},
		Results: []Result{
			{Name: "A log call", Command: "bin/cp-bench log", Took: 12345 * time.Millisecond,
				Bars: []Bar{
					Bar{Name: "id", Limit: 1.12, Unit: "× rdtscp"}.From([]float64{1.07, 1.05, 1.1}),
					{Name: "dropped", Figure: 3, Limit: 0, Unit: "records"},
					{Name: "namespaces", Limit: 0.8, Unit: "µs", Absent: "needs root"},
				}},
			{Name: "Silent", Command: "go test ./silent", Took: time.Second},
			{Name: "Broken", Command: "go test ./broken",
				Took: time.Second, Err: errors.New("exit status 1")},
		},
	}
}

func TestCount(t *testing.T) {
	failed := errors.New("exit status 1")
	missed := Bar{Name: "lost", Figure: 1}
	slow := Bar{Name: "a call", Figure: 3, Limit: 2, Timing: true}
	noisy := Bar{Name: "a call", Limit: 2, Timing: true, Absent: "noise"}
	tests := map[string]struct {
		record Record
		want   Tally
	}{
		"of all kinds": {sampleRecord(),
			Tally{Reached: 1, Missed: 3, Absent: 1}},
		"a miss that fails its test": {
			Record{Results: []Result{{Err: failed, Bars: []Bar{missed}}}}, Tally{Missed: 1}},
		"failed, with reached bars": {
			Record{Results: []Result{{Err: failed, Bars: []Bar{{Name: "x"}}}}},
			Tally{Reached: 1, Missed: 1}},
		"timings, small": {Record{Size: Small,
			Results: []Result{{Bars: []Bar{slow, noisy}}}}, Tally{Unjudged: 2}},
		"timings, full": {Record{Size: Full,
			Results: []Result{{Bars: []Bar{slow, noisy}}}}, Tally{Missed: 1, Absent: 1}},
		"a timing does not " +
			"explain failure": {Record{Size: Small,
			Results: []Result{{Err: failed, Bars: []Bar{slow}}}}, Tally{Missed: 1, Unjudged: 1}},
		"a promise, small": {Record{Size: Small, Results: []Result{{Bars: []Bar{missed}}}},
			Tally{Missed: 1}},
	}
	for name, test := range tests {
		if got := test.record.Count(); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestRecordIsWrittenOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "docs", "proofs")
	for _, want := range []string{"2026-03-02.md", "2026-03-02-2.md", "2026-03-02-3.md"} {
		name, err := sampleRecord().Save(dir)
		if err != nil || filepath.Base(name) != want {
			t.Fatalf("Save = %q, %v, want %q", name, err, want)
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, "2026-03-02.md"))
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/record.md"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v\ngot:\n%s\nwant:\n%s", err, got, want)
	}
}

func TestThisMachineIsKnown(t *testing.T) {
	m := ThisMachine()
	if m.Cores < 1 || m.Kernel == unknown || !strings.HasPrefix(m.Go, "go") {
		t.Errorf("ThisMachine() = %+v", m)
	}
	if got := field("/nonexistent", "a", ":"); got != unknown {
		t.Errorf("field of no file = %q", got)
	}
}

// fakeT counts what a test did with it. Its Fatal and Skip do not end the caller, unlike those of a
// real T.
type fakeT struct{ fatal, skip, errors, logs int }

func (f *fakeT) Helper()      {}
func (f *fakeT) Fatal(...any) { f.fatal++ }
func (f *fakeT) Skip(...any)  { f.skip++ }
func (f *fakeT) Error(...any) { f.errors++ }
func (f *fakeT) Log(...any)   { f.logs++ }

func TestBeginAndCheck(t *testing.T) {
	t.Setenv(fileVariable, "")
	for value, want := range map[string]fakeT{"": {skip: 1}, "small": {}, "full": {},
		"huge": {fatal: 1, skip: 1}} {
		t.Setenv(sizeVariable, value)
		var got fakeT
		if size := Begin(&got); got != want || want == (fakeT{}) && string(size) != value {
			t.Errorf("%s=%q: Begin = %q, %+v, want %+v", sizeVariable, value, size, got, want)
		}
	}
	bars := []Bar{{Name: "a", Figure: 1, Limit: 2}, {Name: "b", Figure: 3, Limit: 2},
		{Name: "c", Absent: "x"},
		{Name: "d", Figure: 3, Limit: 2, Timing: true}}
	for size, want := range map[Size]fakeT{Small: {errors: 1, logs: 3},
		Full: {errors: 2, logs: 2}} {
		t.Setenv(sizeVariable, string(size))
		var got fakeT
		if Check(&got, bars...); got != want {
			t.Errorf("Check at size %q: %+v, want %+v", size, got, want)
		}
	}
}
