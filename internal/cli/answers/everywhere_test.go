package answers

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/report"
)

// shownDuration is a duration as an output shows it.
type shownDuration struct {
	name   string // from → to
	lo, hi int64
}

// A run whose nodes measured different frequencies is exported as text, as JSON, as a page, in
// Parquet and for Perfetto. All five have the same durations, to the last digit. All five have only
// one frequency, the reference's.
func TestTheSameNumbersEverywhere(t *testing.T) {
	run := aRun(t, "everywhere")
	frequencies := map[string][2]string{"A": {"2600000100.25", "2600007700"},
		"B": {"2599990000", "2599999000.5"}}
	setFrequencies(t, run, frequencies)
	for _, reference := range []string{"A", "B"} {
		t.Run(reference, func(t *testing.T) { sameEverywhere(t, run, reference, frequencies) })
	}
}

// The function words replaces the line breaks of a text by spaces.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

func sameEverywhere(t *testing.T, run, reference string, frequencies map[string][2]string) {
	ask := func(args ...string) string {
		t.Helper()
		code, out, stderr := cprof(append(args, "--reference", reference)...)
		if code != 0 {
			t.Fatalf("%s: exit code %d, %s", args, code, stderr)
		}
		return out
	}
	text := ask("analyze", run, "-v")
	var answer analysis.Answer
	if err := json.Unmarshal([]byte(ask("analyze", run, "--json")), &answer); err != nil {
		t.Fatal(err)
	}
	html := ask("report", run, "--output", "-")
	_, data, _ := strings.Cut(html, `<script id="data" type="application/json">`)
	data, _, _ = strings.Cut(data, "</script>")
	var page report.Data
	if err := json.Unmarshal([]byte(data), &page); err != nil {
		t.Fatal(err)
	}
	ask("export", run, "--as", "parquet,perfetto")
	rows, about := readParquet(t, filepath.Join(run, "exports", "durations", "part=0",
		"durations.parquet"))
	slices, trace := readTrace(t, filepath.Join(run, "exports", "trace.perfetto-trace"))

	// The Parquet file says which node's cycles it has, and at which frequency. The other outputs
	// must agree with it.
	number := func(text string) float64 {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	lo_hz, hi_hz := about["frequency_lo_hz"], about["frequency_hi_hz"]
	r := analysis.Reference{
		Node: about["reference_node"], FrequencyLo_hz: number(lo_hz), FrequencyHi_hz: number(hi_hz),
		Source: about["frequency_source"],
	}
	if f := frequencies[reference]; lo_hz != f[0] || hi_hz != f[1] || r != answer.Reference {
		t.Errorf("Parquet says %v, JSON %+v, the run has %v", about, answer.Reference, f)
	}
	if p := page.Reference; p.Node != reference || p.Lo_hz != r.FrequencyLo_hz ||
		p.Hi_hz != r.FrequencyHi_hz ||
		p.Seconds != r.SecondsMean() {
		t.Errorf("the page's reference is %+v, want %+v", p, r)
	}
	if !strings.Contains(trace, r.SecondsMean()) ||
		strings.Count(words(text), r.SecondsMean()) != 1 {
		t.Errorf("%q is in the trace %q, and once in\n%s", r.SecondsMean(), trace, text)
	}
	oneFrequency(t, reference, map[string]string{"text": text, "trace": trace, "page": data})

	spans := append(answer.Spans, answer.EndToEnd...)
	if len(spans) != 4 {
		t.Fatalf("%d spans", len(spans))
	}
	for _, l := range spans {
		name := l.From + " → " + l.To
		_, line, _ := strings.Cut(text, "\n"+name+", "+l.Kind+"\n") // the span's own row follows
		line, _, _ = strings.Cut(line, "\n")
		stretch := page.Spans[stretchOf(t, &page, name)]
		for _, percent := range []float64{50, 99} {
			p, _ := l.All.Percentiles.At(percent)
			if got := percentileOf(rows, name, percent); got != p {
				t.Errorf("p%v of %s is %v in Parquet, %v in JSON", percent, name, got, p)
			}
			if !strings.Contains(line, r.Seconds(p)) ||
				percent == 50 && !strings.Contains(line, cyclesText(p)) {
				t.Errorf("p%v of %s is %s, %s, and in text %q", percent, name, cyclesText(p),
					r.Seconds(p), line)
			}
			for _, shown := range stretch.Percentiles {
				i := analysis.Interval{Lo_cycles: shown.Lo_cycles, Hi_cycles: shown.Hi_cycles}
				if shown.P == percent && i != p {
					t.Errorf("p%v of %s is %+v on the page, %v in JSON", percent, name, shown, p)
				}
			}
		}
	}

	// Compare the bounds of pairs, and the bounds of other methods.
	for i, p := range answer.Pairs {
		shown := page.Pairs[i]
		if uint64(shown.Bound_cycles) != p.Bound_cycles ||
			uint64(shown.Worst_cycles) != p.Worst_cycles ||
			!strings.Contains(text, fmt.Sprintf("from %d cycles", p.Bound_cycles)) {
			t.Errorf("the page's pair %+v, JSON's %+v", shown, p)
		}
	}
	for _, m := range answer.Comparisons[0].Methods {
		bound := fmt.Sprintf("%d (%s)", m.Median_cycles, r.Bound(m.Median_cycles))
		if m.Absent == "" && !strings.Contains(text, bound) {
			t.Errorf("%s has a median bound of %s, which is not in\n%s", m.Name, bound, text)
		}
	}

	// Each row of Parquet is a slice of the trace.
	want := map[string]int{}
	for _, row := range rows {
		i := analysis.Interval{Lo_cycles: row.lo, Hi_cycles: row.hi}
		want[fmt.Sprint(row.name, row.lo, row.hi, r.Seconds(i))]++
	}
	for _, s := range slices {
		if want[s]--; want[s] < 0 {
			t.Fatalf("the trace has %q, and Parquet has not", s)
		}
	}
	if len(rows) != len(slices) {
		t.Errorf("%d rows of Parquet, %d slices", len(rows), len(slices))
	}
}

var hertz = regexp.MustCompile(`[0-9] [GM]Hz`)

// oneFrequency checks that each output names the reference's frequency once, and never names the
// other node's.
func oneFrequency(t *testing.T, reference string, outputs map[string]string) {
	t.Helper()
	digits := map[string][]string{"A": {"2.6000039", "2600000100"},
		"B": {"2.5999945", "2599990000"}}
	for name, out := range outputs {
		if n := len(hertz.FindAllString(out, -1)); n != 1 {
			t.Errorf("the %s has %d frequencies", name, n)
		}
		for node, some := range digits {
			found := strings.Contains(out, some[0]) || strings.Contains(out, some[1])
			if found != (node == reference) {
				t.Errorf("the frequency of %s is in the %s: %v, in cycles of %s",
					node, name, found, reference)
			}
		}
	}
}

func stretchOf(t *testing.T, page *report.Data, points string) int {
	t.Helper()
	i := slices.IndexFunc(page.Spans, func(s report.Span) bool { return s.Points == points })
	if i < 0 {
		t.Fatalf("%s is not on the page", points)
	}
	return i
}

// percentileOf returns an interval: the percentile of the low ends of all durations with this name,
// and the percentile of their high ends.
func percentileOf(rows []shownDuration, name string, percent float64) analysis.Interval {
	var los, his []int64
	for _, r := range rows {
		if r.name == name {
			los, his = append(los, r.lo), append(his, r.hi)
		}
	}
	slices.Sort(los)
	slices.Sort(his)
	rank := (len(los)*int(percent)+99)/100 - 1
	return analysis.Interval{Lo_cycles: los[rank], Hi_cycles: his[rank]}
}

// setFrequencies gives each node of a run the frequency in the map.
func setFrequencies(t *testing.T, run string, frequencies map[string][2]string) {
	t.Helper()
	path := filepath.Join(run, "run.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	node := ""
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		key, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "- "), ": ")
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		switch key {
		case "name":
			node = value
		case "frequency_lo_hz", "frequency_hi_hz":
			end := strings.Index("lh", key[10:11])
			lines[i] = fmt.Sprintf("%s%s: %s", indent, key, frequencies[node][end])
		}
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// readParquet returns the rows of durations, and the metadata of the file.
func readParquet(t *testing.T, path string) (rows []shownDuration, about map[string]string) {
	t.Helper()
	type row struct {
		From string `parquet:"from_point"`
		To   string `parquet:"to_point"`
		Lo   int64  `parquet:"lo_cycles"`
		Hi   int64  `parquet:"hi_cycles"`
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := parquet.OpenFile(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	about = map[string]string{}
	for _, kv := range file.Metadata().KeyValueMetadata {
		about[kv.Key] = kv.Value
	}
	read, err := parquet.Read[row](bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range read {
		rows = append(rows, shownDuration{r.From + " → " + r.To, r.Lo, r.Hi})
	}
	return rows, about
}

// readTrace returns the slices of a Perfetto trace with their annotations. name is the name of the
// track above the tracks of the slices.
func readTrace(t *testing.T, path string) (slices []string, name string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fields := func(b []byte, take func(number uint64, v uint64, bytes []byte)) {
		for len(b) > 0 {
			tag, n := binary.Uvarint(b)
			v, m := binary.Uvarint(b[n:])
			b = b[n+m:]
			var bytes []byte
			switch tag & 7 {
			case 1:
				b = b[8-m:]
			case 2:
				bytes, b = b[:v], b[v:]
			}
			take(tag>>3, v, bytes)
		}
	}
	fields(text, func(_, _ uint64, packet []byte) {
		fields(packet, func(number, _ uint64, message []byte) {
			switch number {
			case 60: // a track
				fields(message, func(number, _ uint64, text []byte) {
					if number == 2 && name == "" {
						name = string(text)
					}
				})
			case 11: // an event
				says := map[string]any{}
				fields(message, func(number, _ uint64, inner []byte) {
					if number != 4 {
						return
					}
					var key string
					var value any
					fields(inner, func(number, v uint64, text []byte) {
						switch number {
						case 10:
							key = string(text)
						case 4:
							value = int64(v)
						case 6:
							value = string(text)
						}
					})
					says[key] = value
				})
				if says["lo_cycles"] != nil { // neither the end of a slice nor a single event
					slices = append(slices, fmt.Sprint(pointOf(says["from_channel"]), " → ",
						pointOf(says["to_channel"]), says["lo_cycles"], says["hi_cycles"],
						says["seconds"]))
				}
			}
		})
	})
	return slices, name
}

// pointOf returns the point of a channel, such as worker/recv for worker#0/recv.
func pointOf(channel any) string {
	actor, point, _ := strings.Cut(channel.(string), "/")
	actor, _, _ = strings.Cut(actor, "#")
	return actor + "/" + point
}
