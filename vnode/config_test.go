package vnode

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// fullConfig returns a configuration with a different value in each field.
func fullConfig() Config {
	return Config{
		Version: 1, Name: "b",
		Counter: CounterConfig{
			Origin: 1_000_000_000_000, Start: 9_223_372_036_854_775_809, Rate_2e40: -54_975_581,
			Quantum_cycles: 26,
			Wander: WanderConfig{Shape: Temperature, Limit_2e40: 549_756,
				Window_cycles: 52_000_000_000, SegmentLog2: 28, Segments: 36_000,
				Period_cycles: 260_000_000_000, Settle_cycles: 78_000_000_000,
				Seed: 18_446_744_073_709_551_615},
			Steps: []Step{{2_000_000_000_000, -5}, {3_000_000_000_000, 7}},
		},
		Realtime: RealtimeConfig{
			Origin_ns: 1_700_000_000_000_000_000, Offset_ns: -3_600_000_000_001,
			Adjustments: []Adjustment{{1_700_000_001_000_000_000, -1_234_567, 10_833}},
			Slews:       []Slew{{1_700_000_002_000_000_000, 1_000_003, 500}},
			Steps:       []RealtimeStep{{1_700_000_003_000_000_000, -9}},
		},
	}
}

func TestConfigIsWrittenAsItsFormatSays(t *testing.T) {
	c := fullConfig()
	text, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "node.json")
	if *update {
		if err := os.WriteFile(golden, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(text, want) {
		t.Fatalf("config (%v; -update writes it):\n%s\nwant:\n%s", err, text, want)
	}
	back, err := ParseConfig(want)
	if err != nil || !reflect.DeepEqual(back, c) {
		t.Fatalf("ParseConfig = %+v, %v; want %+v", back, err, c)
	}
	if _, err := New(back); err != nil {
		t.Errorf("New = %v", err)
	}
	format, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range regexp.MustCompile(`"(\w+)":`).FindAllSubmatch(want, -1) {
		if !regexp.MustCompile(`[.\x60]` + string(key[1]) + `(\x60|\[|\.)`).Match(format) {
			t.Errorf("FORMAT.md does not explain %q", key[1])
		}
	}
}

func TestTheDefaultNodeReadsAsThePhysicalOne(t *testing.T) {
	n, err := New(DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []uint64{0, 1, 1 << 40, 1<<64 - 1} {
		if got := n.Counter.Virtual(p); got != p {
			t.Errorf("Virtual(%d) = %d", p, got)
		}
	}
	for _, x := range []int64{0, 1_700_000_000_000_000_000} {
		if got := n.Realtime.Virtual(x); got != x {
			t.Errorf("Virtual(%d ns) = %d", x, got)
		}
	}
}

func TestConfigsThatDescribeNoNode(t *testing.T) {
	tests := map[string]func(c *Config){
		"version":               func(c *Config) { c.Version = 2 },
		"rate_2e40 ":            func(c *Config) { c.Counter.Rate_2e40 = leastRate_2e40 - 1 },
		"rate_2e40":             func(c *Config) { c.Counter.Rate_2e40 = mostRate_2e40 + 1 },
		"quantum_cycles":        func(c *Config) { c.Counter.Quantum_cycles = 0 },
		"quantum_cycles ":       func(c *Config) { c.Counter.Quantum_cycles = 1<<32 + 1 },
		"shape":                 func(c *Config) { c.Counter.Wander.Shape = "square" },
		"segment_log2":          func(c *Config) { c.Counter.Wander.SegmentLog2 = 9 },
		"segment_log2 ":         func(c *Config) { c.Counter.Wander.SegmentLog2 = 31 },
		"segments":              func(c *Config) { c.Counter.Wander.Segments = mostSegments + 1 },
		"segments ":             func(c *Config) { c.Counter.Wander.Segments = -1 },
		"segments = 0":          func(c *Config) { c.Counter.Wander.Segments = 0 },
		"knots below 2^64":      func(c *Config) { c.Counter.Origin = 1<<64 - 1 },
		"limit_2e40":            func(c *Config) { c.Counter.Wander.Limit_2e40 = -1 },
		"limit_2e40 ":           func(c *Config) { c.Counter.Wander.Limit_2e40 = mostWander },
		"window_cycles":         func(c *Config) { c.Counter.Wander.Window_cycles = 0 },
		"period_cycles":         func(c *Config) { c.Counter.Wander.Period_cycles = 1 << 28 },
		"settle_cycles":         func(c *Config) { c.Counter.Wander.Settle_cycles = 0 },
		"steps[1].at":           func(c *Config) { c.Counter.Steps[1].At = c.Counter.Steps[0].At },
		"counter.steps = 65537": func(c *Config) { c.Counter.Steps = make([]Step, mostSteps+1) },
		"origin_ns":             func(c *Config) { c.Realtime.Origin_ns = -1 },
		"offset_ns":             func(c *Config) { c.Realtime.Offset_ns = 1 << 62 },
		"adjustments[0].at_ns":  func(c *Config) { c.Realtime.Adjustments[0].At_ns = 1 },
		"freq": func(c *Config) {
			c.Realtime.Adjustments[0].Freq = mostFreq +
				1
		},
		"tick_us":            func(c *Config) { c.Realtime.Adjustments[0].Tick_us = 8999 },
		"slews[0].at_ns":     func(c *Config) { c.Realtime.Slews[0].At_ns = 1 << 62 },
		"rate_ppm":           func(c *Config) { c.Realtime.Slews[0].Rate_ppm = 0 },
		"rate_ppm ":          func(c *Config) { c.Realtime.Slews[0].Rate_ppm = 3 },
		"slews[0].offset_ns": func(c *Config) { c.Realtime.Slews[0].Offset_ns = -1 << 60 },
		"realtime.slews = 65": func(c *Config) {
			c.Realtime.Slews = slices65(c.Realtime.Slews[0])
		},
		"realtime.steps[0].at_ns": func(c *Config) { c.Realtime.Steps[0].At_ns = 1 },
		"realtime.steps[0].by_ns": func(c *Config) { c.Realtime.Steps[0].By_ns = 1 << 62 },
		"add up": func(c *Config) {
			c.Realtime.Steps = []RealtimeStep{{1_700_000_000_000_000_000, 1 << 61},
				{1_700_000_000_000_000_001, 1}}
		},
		"realtime = 65537": func(c *Config) {
			c.Realtime.Steps = make([]RealtimeStep, mostSteps-1)
		},
		"leaves the mean by more": func(c *Config) {
			c.Counter.Wander = WanderConfig{Shape: Sine, Limit_2e40: PPM(100), Window_cycles: 1,
				SegmentLog2: 10, Segments: 1000, Period_cycles: 1 << 20}
		},
	}
	for want, change := range tests {
		t.Run(want, func(t *testing.T) {
			c := fullConfig()
			change(&c)
			if _, err := New(c); !errors.Is(err, ErrConfig) ||
				!strings.Contains(err.Error(), strings.TrimSpace(want)) {
				t.Errorf("New = %v, want ErrConfig and %q", err, want)
			}
		})
	}
	text, err := fullConfig().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"empty": "", "not JSON": "version: 1",
		"unknown key": strings.Replace(string(text), `"name"`, `"nome"`, 1),
		"more behind": string(text) + "{}", "torn": string(text[:len(text)/2]), "no version": "{}",
		"number too large": strings.Replace(string(text), "18446744073709551615",
			"18446744073709551616", 1),
	} {
		if _, err := ParseConfig([]byte(text)); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: ParseConfig = %v, want ErrConfig", name, err)
		}
	}
	bad := fullConfig()
	bad.Counter.Quantum_cycles = 0
	if _, err := bad.Encode(); !errors.Is(err, ErrConfig) {
		t.Errorf("Encode = %v, want ErrConfig", err)
	}
}

// The error for a wrong key names the key's line, and what to write instead.
func TestConfigErrorsNameTheLine(t *testing.T) {
	text, err := fullConfig().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ old, new, want string }{
		{`"name"`, `"nome"`, `line 3: there is no key "nome": did you mean "name"?`},
		{`"segment_log2"`, `"segments_log2"`, `line 13: there is no key ` +
			`"counter.wander.segments_log2": did you mean "counter.wander.segment_log2"?`},
		{`"by_cycles"`, `"qqqqq"`, `line 22: there is no key "counter.steps.qqqqq": FORMAT.md`},
		{`"26"`, `26`, `line 8: counter.quantum_cycles is 26: write the number in quotes`},
		{`"realtime": {`, `"realtime": {,`, `line 30: invalid character`},
		{`"segments": 36000`, `"segments": "many"`, `line 14: json: cannot unmarshal`},
		{`"counter": {`, `"counter": [], "x": {`, `line 4: json: cannot unmarshal`},
	} {
		changed := strings.Replace(string(text), test.old, test.new, 1)
		if _, err := ParseConfig([]byte(changed)); !errors.Is(err, ErrConfig) ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: ParseConfig = %v, want %q", test.new, err, test.want)
		}
	}
}

func slices65(s Slew) []Slew {
	all := make([]Slew, 65)
	for i := range all {
		all[i] = s
	}
	return all
}

// If ParseConfig accepts a configuration, a node can be made from it. The two implementations of
// the node agree. If the configuration is encoded and parsed again, it is still the same.
func FuzzParseConfig(f *testing.F) {
	text, err := fullConfig().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, uint64(1_000_000_123_456), int64(1_700_000_002_500_000_000))
	small, err := DefaultConfig().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(small, uint64(7), int64(7))
	f.Fuzz(func(t *testing.T, text []byte, p uint64, x int64) {
		c, err := ParseConfig(text)
		if err != nil || c.Counter.Wander.Segments > 1<<16 {
			return
		}
		again, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseConfig(again)
		if err != nil {
			t.Fatalf("%v in %s", err, again)
		}
		third, err := back.Encode()
		if err != nil || !bytes.Equal(again, third) {
			t.Fatalf("%s became %s, %v", again, third, err)
		}
		n, err := New(c)
		if err != nil {
			if !errors.Is(err, ErrConfig) {
				t.Fatal(err)
			}
			return
		}
		_, truth := bothCounters(t, c.Counter)
		if got, want := n.Counter.Virtual(p), truth.Reading(p); got != want {
			t.Fatalf("Virtual(%d) = %d, Truth %d", p, got, want)
		}
		if x < 0 || x > mostTime_ns {
			return
		}
		_, clock := bothClocks(t, c.Realtime)
		if got, want := n.Realtime.Virtual(x), clock.Reading(x); got != want {
			t.Fatalf("Virtual(%d ns) = %d, Truth %d", x, got, want)
		}
	})
}
