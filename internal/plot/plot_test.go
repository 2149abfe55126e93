package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

var update = flag.Bool("update", false, "write the golden files")

// sample returns a figure with every kind of series, both kinds of axis and a gap.
func sample() Figure {
	var x, mid, lo, hi, rate []float64
	for i := range 301 {
		t := float64(i) * 2
		x = append(x, t)
		m := 3 * math.Sin(t/90)
		w := 0.4 + 0.3*math.Abs(math.Sin(t/30))
		if i == 150 {
			m = math.NaN()
		}
		mid, lo, hi = append(mid, m), append(lo, m-w), append(hi, m+w)
		rate = append(rate, math.Pow(10, -1+3*t/600))
	}
	return Figure{
		Title:    "Relation of a to b",
		Subtitle: "w = 1 ppm over ±10 s, 1200 constraints, consistent",
		Panels: []Panel{
			{
				Title: "Residual", X: Axis{Label: "time", Unit: "s"}, Y: Axis{Label: "residual",
					Unit: "µs"},
				Series: []Series{
					{Name: "bound", Kind: Band, X: x, Lo: lo, Hi: hi},
					{Name: "middle", Kind: Line, X: x, Y: mid, Color: Blue},
					{Name: "lower constraints", Kind: Points, X: []float64{10, 100, 200, 590},
						Y: []float64{-1, 1.1, 0.2, -0.5}},
					{Name: "upper constraints", Kind: Points, X: []float64{40, 130, 230, 520},
						Y: []float64{3, 3.9, 3.4, 1}, Color: Green},
					{Name: "contradiction", Kind: Rule, X: []float64{330}, Color: Red},
				},
			},
			{
				Title: "Half-width", X: Axis{Label: "time", Unit: "s"}, Y: Axis{Label: "half-width",
					Unit: "µs", Log: true},
				Series: []Series{{Name: "a < b & c", Kind: Line, X: x, Y: rate},
					{Name: "limit", Kind: Line, X: []float64{0, 600}, Y: []float64{0.5, 0.5},
						Color: Green}},
			},
		},
		Notes: []string{"The bound holds if the relative rate stays within 1 ppm of its mean in " +
			"every window of ±10 s, the cores of a node agree within its slack, and no " +
			"epoch is broken."},
	}
}

func render(t *testing.T, f Figure) (svg, text []byte) {
	t.Helper()
	var a, b bytes.Buffer
	if err := f.WriteSVG(&a); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteText(&b, 80); err != nil {
		t.Fatal(err)
	}
	return a.Bytes(), b.Bytes()
}

func TestGolden(t *testing.T) {
	figures := map[string]Figure{
		"sample": sample(),
		"empty": {Title: "Nothing",
			Panels: []Panel{{X: Axis{Label: "time"}, Y: Axis{Label: "y"},
				Series: []Series{{Name: "none", Kind: Line}}}}},
		"counts": {Title: "Stamps",
			Panels: []Panel{{X: Axis{Label: "train"},
				Y: Axis{Label: "stamps", Zero: true, Whole: true},
				Series: []Series{{Name: "kernel", Kind: Line, X: []float64{1, 2, 3},
					Y: []float64{2, 2, 2}}}}}},
	}
	for name, figure := range figures {
		svg, text := render(t, figure)
		for ending, got := range map[string][]byte{".svg": svg, ".txt": text} {
			file := filepath.Join("testdata", name+ending)
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s is not what is drawn; look at both, then go test -update. Drawn:\n%s",
					file, got)
			}
		}
	}
}

// checkSVG returns an error if an image is not valid XML, or if something lies outside the image.
func checkSVG(svg []byte) error {
	if !utf8.Valid(svg) {
		return errors.New("not UTF-8")
	}
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		for _, attr := range start.Attr {
			switch attr.Name.Local {
			case "x", "y", "width", "height":
				v, err := strconv.ParseFloat(attr.Value, 64)
				if err != nil || v < -1 || v > 1e5 || attr.Name.Local == "x" && v > imageWidth {
					return fmt.Errorf("%s: %s=%q", start.Name.Local, attr.Name.Local, attr.Value)
				}
			case "d":
				if strings.ContainsAny(attr.Value, "NIe") { // part of NaN, of Inf or of an exponent
					return fmt.Errorf("path %q", attr.Value)
				}
			}
		}
	}
}

// A long label at the right end of an axis moves to the left, so that the image does not cut it.
func TestLabelsAreNotCut(t *testing.T) {
	var out bytes.Buffer
	f :=
		Figure{Panels: []Panel{{X: Axis{Label: "load", Zero: true},
			Series: []Series{{Kind: Line, X: []float64{0, 100_000}, Y: []float64{0, 1}}}}}}
	if err := f.WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	label :=
		regexp.MustCompile(`x="([0-9.]+)" y="[0-9.]+" text-anchor="middle">100000<`).FindSubmatch(
			out.Bytes())
	if label == nil {
		t.Fatalf("no label says 100000:\n%s", &out)
	}
	if x, err := strconv.ParseFloat(string(label[1]), 64); err != nil ||
		x+textWidth("100000", textSize)/2 > imageWidth {
		t.Errorf("the last label is around %v, %v", x, err)
	}
}

func TestAnyValuesGiveAnImage(t *testing.T) {
	r := seed.Random(t)
	odd := []float64{0, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64,
		math.SmallestNonzeroFloat64, 1e-300, 1, -1, 1 << 53, 1e18}
	value := func() float64 {
		if r.IntN(3) == 0 {
			return odd[r.IntN(len(odd))]
		}
		return (r.Float64() - 0.5) * math.Pow(10, float64(r.IntN(40)-20))
	}
	values := func() []float64 {
		v := make([]float64, r.IntN(30))
		for i := range v {
			v[i] = value()
		}
		return v
	}
	axis := func() Axis {
		return Axis{Label: "l", Log: r.IntN(3) == 0, Zero: r.IntN(3) == 0, Whole: r.IntN(3) == 0,
			From: value() * float64(r.IntN(2)), To: value() * float64(r.IntN(2))}
	}
	for range 1000 {
		p := Panel{X: axis(), Y: axis()}
		for range r.IntN(9) {
			p.Series = append(p.Series, Series{Name: "s", Kind: Kind(r.IntN(6)), X: values(),
				Y: values(), Lo: values(), Hi: values(), Color: Color(r.IntN(12))})
		}
		f := Figure{Panels: []Panel{p}}
		svg, _ := render(t, f)
		if err := checkSVG(svg); err != nil {
			t.Fatalf("%v\n%+v", err, p)
		}
	}
}

func FuzzTexts(f *testing.F) {
	f.Add("a < b & \"c\"", "\x00\x1b[31m\uFFFE")
	f.Fuzz(func(t *testing.T, a, b string) {
		figure := Figure{ // with few values, so that the fuzzer tries many texts
			Title: a, Subtitle: b, Notes: []string{b},
			Panels: []Panel{{
				Title: a, X: Axis{Label: b, Unit: "s"}, Y: Axis{Label: a, Unit: b},
				Series: []Series{{Name: a, Kind: Line, X: []float64{0, 1}, Y: []float64{1, 3}},
					{Name: b, Kind: Rule, X: []float64{0.5}}},
			}},
		}
		svg, text := render(t, figure)
		if err := checkSVG(svg); err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsAny(text, "\x1b\x00\u009b\x07\r") {
			t.Fatalf("control characters reach the terminal: %q", text)
		}
		for _, line := range strings.Split(string(text), "\n")[5:17] {
			if n := utf8.RuneCountInString(line); n > 80 {
				t.Fatalf("%d columns: %q", n, line)
			}
		}
	})
}

// After thinning, a band or line still covers all values.
func TestThinningIsOutward(t *testing.T) {
	run := []int{0, 1, 2, 3, 4}
	lo := []float64{5, 3, 4, 9, 8}
	hi := []float64{6, 7, 5, 9, 9}
	x := []float64{10, 10.3, 10.9, 11, 11.5}
	got := byPixel(run, func(i int) (float64, float64, float64) { return x[i], lo[i], hi[i] })
	want := []column{{10, 5, 4, 3, 7}, {11, 9, 8, 8, 9}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTicks(t *testing.T) {
	labels := func(s scale) (l []string) {
		for _, tick := range s.ticks {
			l = append(l, tick.label)
		}
		return l
	}
	for _, c := range []struct {
		axis   Axis
		lo, hi float64
		want   string
	}{
		{Axis{}, 0, 1, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{Axis{}, -0.3, 0.31, "−0.4 −0.2 0.0 0.2 0.4"},
		{Axis{Zero: true}, 3, 42, "0 10 20 30 40 50"},
		{Axis{Whole: true}, 1, 3, "1 2 3"},
		{Axis{Log: true}, 0.2, 300, "0.1 1 10 100 1000"},
		{Axis{Log: true}, 0.2, 0.9, "0.1 0.2 0.5 1"},
		{Axis{}, 5, 5, "4.4 4.6 4.8 5.0 5.2 5.4 5.6"},
		{Axis{}, 2.5e9, 2.7e9, "2.5e+09 2.55e+09 2.6e+09 2.65e+09 2.7e+09"},
	} {
		got := strings.Join(labels(newScale(c.axis, span{c.lo, c.hi, true}, 5, true)), " ")
		if got != c.want {
			t.Errorf("%+v from %v to %v: ticks %q, want %q", c.axis, c.lo, c.hi, got, c.want)
		}
	}
}
