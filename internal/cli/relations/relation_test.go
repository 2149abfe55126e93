package relations

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/command/commandtest"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// beginB is the first reading of B's counter. In these tests, A's counter counts nanoseconds. B's
// counter counts 2.5 cycles in a nanosecond, and may jump by a step in the middle.
const beginB = 1 << 50

func readingB(ns uint64, step int64) uint64 {
	v := beginB + ns*5/2
	if ns > 30e9 {
		v += uint64(step)
	}
	return v
}

// storedPair writes a relation file with the exchanges of one minute, whose packets took 10 µs or
// more. B's counter jumps by step in the middle.
func storedPair(t *testing.T, step int64, change func(*tscratio.Pair)) string {
	t.Helper()
	a := tscratio.Node{Name: "a", Epoch: "boot-a", Nominal_hz: 1e9, Quantum_cycles: 1}
	b := tscratio.Node{Name: "b", Epoch: "boot-b", Nominal_hz: 2.5e9, Quantum_cycles: 1}
	pair, err := tscratio.NewPair(a, b, tscratio.DefaultAssumptions())
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(pair)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for at := uint64(0); at < 60e9; at += 500e6 {
		train := tscratio.Train{Stamps: tscratio.Stamps{Kernel: 6, User: 2}}
		now := at
		for range 2 {
			sent := now
			received := sent + 10e3 + r.Uint64N(2e3)
			answered := received + 1e3
			returned := answered + 10e3 + r.Uint64N(2e3)
			train.Exchanges = append(train.Exchanges, tscratio.Exchange{
				Sent: tscratio.At(sent), Received: tscratio.At(readingB(received, step)),
				Answered: tscratio.At(readingB(answered, step)), Returned: tscratio.At(returned),
			})
			now = returned + 1e3
		}
		if err := pair.Add(train); err != nil {
			t.Fatal(err)
		}
	}
	pair.Prune()
	return writeFile(t, "a--b.rel", pair.Encode())
}

func writeFile(t *testing.T, name string, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestRelationOutput(t *testing.T) {
	whole, suspect, stepped := storedPair(t, 0, nil), storedPair(t, 65_000, nil),
		storedPair(t, 125_000, nil)
	for _, tc := range []struct {
		golden string
		code   int
		args   []string
	}{
		{"relation-show.txt", command.Answered, []string{"relation", "show", whole}},
		{"relation-show.json", command.Answered, []string{"relation", "show", whole, "--into", "b",
			"--wander", "0.5ppm", "--json"}},
		{"relation-plot.txt", command.Answered, []string{"relation", "plot", whole}},
		{"relation-show-suspect.txt", command.Partial, []string{"relation", "show", suspect}},
		{"relation-show-stepped.txt", command.Failed, []string{"relation", "show", stepped}},
		{"relation-plot-stepped.txt", command.Failed, []string{"relation", "plot", stepped}},
		{"relation-show-stepped.json",
			command.Failed, []string{"relation", "show", stepped, "--json"}},
		{"relation-plot-suspect.txt", command.Partial, []string{"relation", "plot", suspect}},
		{"relation-translate.txt", command.Answered, []string{"relation", "translate",
			whole, strconv.FormatUint(readingB(20e9, 0), 10)}},
		{"relation-translate.json", command.Partial, []string{"relation", "translate",
			suspect, "--from", "a", "--json", "20000000000", "40000000000"}},
	} {
		code, stdout, stderr := cprof(tc.args...)
		if code != tc.code {
			t.Errorf("%v: exit code %d, want %d: %s", tc.args, code, tc.code, stderr)
		}
		commandtest.Golden(t, tc.golden, stdout)
	}
}

func TestRelationPlotDrawsAnImage(t *testing.T) {
	image := filepath.Join(t.TempDir(), "x.svg")
	if code, _, stderr := cprof("relation", "plot", storedPair(t, 0, nil), "--svg",
		image); code != command.Answered {
		t.Fatal(stderr)
	}
	svg, err := os.ReadFile(image)
	if err != nil || !bytes.HasPrefix(svg, []byte("<svg ")) ||
		!bytes.HasSuffix(svg, []byte("</svg>\n")) {
		t.Errorf("%v: %.100s", err, svg)
	}
	if code, _, stderr := cprof("relation", "plot", storedPair(t, 0, nil), "--svg",
		"/nonexistent/x.svg"); code != command.Failed {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// Every translation contains the truth, in both directions and with any wander.
func TestRelationTranslateHoldsTheTruth(t *testing.T) {
	file := storedPair(t, 0, nil)
	for _, wander := range []string{"1ppm", "10ppb", "8ppm"} {
		for _, from := range []string{"a", "b"} {
			var in strings.Builder
			var truth []uint64
			for ns := uint64(1e9); ns < 59e9; ns += 777_777_777 {
				x, y := ns, readingB(ns, 0)
				if from == "b" {
					x, y = y, x
				}
				in.WriteString(decimal(x) + "\n")
				truth = append(truth, y)
			}
			stdin, stdout := strings.NewReader(in.String()), new(bytes.Buffer)
			root := commandtest.Root(Commands())
			root.SetIn(stdin)
			if code := command.Run(t.Context(), root, []string{"relation", "translate",
				file, "--json", "--from", from, "--wander", wander}, stdout,
				os.Stderr); code != command.Answered {
				t.Fatalf("exit code %d", code)
			}
			lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
			if len(lines) != len(truth) {
				t.Fatalf("%d answers to %d readings", len(lines), len(truth))
			}
			for i, text := range lines {
				var line translationLine
				if err := json.Unmarshal([]byte(text), &line); err != nil {
					t.Fatal(err)
				}
				lo, _ := strconv.ParseUint(line.Lo, 10, 64)
				hi, _ := strconv.ParseUint(line.Hi, 10, 64)
				if truth[i] < lo || truth[i] > hi || *line.Bound_us < 5 || *line.Bound_us > 30 ||
					line.Verdict != "consistent" {
					t.Fatalf("%s, truth %d", text, truth[i])
				}
			}
		}
	}
}

func TestRelationRefuses(t *testing.T) {
	whole := storedPair(t, 0, nil)
	data, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	edit := func(f func([]byte) []byte) string {
		return writeFile(t, "x.rel",
			f(bytes.Clone(data)))
	}
	later := storedPair(t, 0, func(p *tscratio.Pair) { p.B.Epoch = "boot-c" })
	other := storedPair(t, 0, func(p *tscratio.Pair) { p.B.Name = "c" })
	backwards := storedPair(t, -1_000_000_000_000, nil)
	for name, tc := range map[string]struct {
		args []string
		code int
		want string // text that the message must contain
	}{
		"no file": {[]string{"show", "/nonexistent.rel"}, command.Failed, "no such file"},
		"a directory": {[]string{"show", t.TempDir()}, command.Failed,
			"give one that ends in .rel"},
		"another file": {[]string{"show", writeFile(t, "x", []byte("#!/bin/sh"))},
			command.Failed, `give a file that "cprof relate" wrote`},
		"torn": {[]string{"show", edit(func(b []byte) []byte { return b[:len(b)-9] })},
			command.Failed, "copy it again from where it was made"},
		"damaged": {[]string{"plot",
			edit(func(b []byte) []byte { b[300] ^= 1; return b })}, command.Failed,
			"it was damaged"},
		"later version": {[]string{"translate",
			edit(func(b []byte) []byte { b[8] = 9; return b }), "1"}, command.Failed,
			"a later cprof wrote it"},
		"another epoch": {[]string{"show", whole, "--with", later}, command.Failed,
			"a counter was reset in between"},
		"readings' epoch": {[]string{"translate", whole, "--epoch", "boot-c", "1"}, command.Failed,
			"take the relation that was measured in that epoch"},
		"other nodes": {[]string{"show", whole, "--with", other}, command.Failed,
			"only files of the same two nodes"},
		"unknown node": {[]string{"show", whole, "--into", "c"}, command.Usage,
			`the relation is of "a" and "b"`},
		"unknown from": {[]string{"translate", whole, "--from", "c", "1"}, command.Usage,
			`the relation is of "a" and "b"`},
		"no wander": {[]string{"show", whole, "--wander", "fast"}, command.Usage,
			"give a fraction such as 1ppm"},
		"wander above max": {[]string{"translate", whole, "--wander", "17ppm", "1"}, command.Failed,
			"give --wander 16 ppm or less"},
		"no reading": {[]string{"translate", whole, "-5"}, command.Usage, "unknown shorthand"},
		"not a reading": {[]string{"translate", whole, "five"}, command.Failed,
			"give a decimal number below 2^64"},
		"far away": {[]string{"translate", whole, "1"}, command.Failed,
			"beyond the extrapolation limit"},
		"some far away": {[]string{"translate", whole, "1", decimal(readingB(5e9, 0))},
			command.Partial, "1 of 2 readings could not be translated"},
		"backwards": {[]string{"translate", backwards, decimal(beginB + 100)}, command.Failed,
			"ran backwards"},
		"backwards, show": {[]string{"show", backwards}, command.Failed, "an assumption is broken"},
	} {
		code, _, stderr := cprof(append([]string{"relation"}, tc.args...)...)
		if code != tc.code || !strings.Contains(stderr, tc.want) {
			t.Errorf("%s: exit code %d, want %d; want %q in: %s", name, code, tc.code, tc.want,
				stderr)
		}
	}
}

// A pair with only one train has no relation, and "relation show" says so.
func TestRelationOfOneTrain(t *testing.T) {
	pair, err := tscratio.NewPair(tscratio.Node{Name: "a", Nominal_hz: 1e9},
		tscratio.Node{Name: "b", Nominal_hz: 1e9}, tscratio.DefaultAssumptions())
	if err != nil {
		t.Fatal(err)
	}
	if err :=
		pair.Add(
			tscratio.Train{OneWay: []tscratio.Constraint{{Kind: tscratio.Lower, B: 5,
				A: 5}}}); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := cprof("relation", "show", writeFile(t, "x.rel", pair.Encode()))
	if code != command.Failed || !strings.Contains(stderr, "measure for longer") ||
		!strings.Contains(stdout, "1 trains") {
		t.Errorf("exit code %d: %s\n%s", code, stdout, stderr)
	}
}
