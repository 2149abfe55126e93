package channel

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseName(t *testing.T) {
	tests := []struct {
		in   string
		want Name // what ParseName must return, except for instanceGiven
		err  string
	}{
		{in: "parser/start", want: Name{Actor: "parser", Point: "start"}},
		{in: "parser#0/start", want: Name{Actor: "parser", Point: "start"}},
		{in: "join.ads_2#1023/my-point", want: Name{Actor: "join.ads_2",
			Instance: 1023, Point: "my-point"}},
		{in: "", err: "no point"},
		{in: "parser", err: "no point"},
		{in: "/start", err: "empty actor"},
		{in: "parser/", err: "empty point"},
		{in: "#1/start", err: "empty actor"},
		{in: "parser#/start", err: "instance"},
		{in: "parser#1024/start", err: "instance"},
		{in: "parser#-1/start", err: "instance"},
		{in: "parser#01/start", err: "instance"},
		{in: "parser#1#2/start", err: "instance"},
		{in: "a/b/c", err: `"/"`},
		{in: "../etc/passwd", err: "starts with '.'"},
		{in: "x/../passwd", err: `"/"`},
		{in: "../passwd", err: "starts with '.'"},
		{in: ".hidden/start", err: "starts with '.'"},
		{in: "a/..", err: "starts with '.'"},
		{in: "a b/start", err: `" "`},
		{in: "a\x00b/start", err: `"\x00"`},
		{in: "a\nb/start", err: `"\n"`},
		{in: "a~b/start", err: `"~"`},
		{in: "größe/start", err: "use letters"},
		{in: strings.Repeat("a", 123) + "/start", err: "129 bytes"},
		{in: strings.Repeat("a", 1<<20), err: "1048576 bytes"},
	}
	for _, test := range tests {
		got, err := ParseName(test.in)
		if test.err != "" {
			if !errors.Is(err, ErrName) || !strings.Contains(err.Error(), test.err) {
				t.Errorf("ParseName(%.40q) = %v, want %q and ErrName", test.in, err, test.err)
			} else if len(err.Error()) > 300 {
				t.Errorf("ParseName(%.40q): an error of %d bytes", test.in, len(err.Error()))
			}
			continue
		}
		if err != nil {
			t.Errorf("ParseName(%q): %v", test.in, err)
			continue
		}
		if got.String() != test.in {
			t.Errorf("ParseName(%q).String() = %q", test.in, got)
		}
		stem := got.FileStem()
		if strings.ContainsAny(stem, "/\\\x00") || stem[0] == '.' {
			t.Errorf("FileStem(%q) = %q is no file name", test.in, stem)
		}
		if back, err := ParseFileStem(stem); err != nil || back != got {
			t.Errorf("ParseFileStem(%q) = %+v, %v, want %+v", stem, back, err, got)
		}
		got.instanceGiven = false
		if got != test.want {
			t.Errorf("ParseName(%q) = %+v, want %+v", test.in, got, test.want)
		}
	}
}

// If ParseName accepts a name, the name's text parses to the same Name, and its file stem is a
// plain file name.
func FuzzParseName(f *testing.F) {
	f.Add("parser#3/start")
	f.Add("../x")
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseName(s)
		if err != nil {
			return
		}
		if n.String() != s {
			t.Fatalf("%q reads back as %q", s, n)
		}
		if stem := n.FileStem(); strings.ContainsAny(stem, "/\x00") || stem[0] == '.' ||
			len(stem) > MaxNameBytes {
			t.Fatalf("file stem %q", stem)
		}
	})
}

func TestKindsPoliciesAndStampsReadBack(t *testing.T) {
	for k := range Kind(kinds) {
		if got, err := ParseKind(k.String()); err != nil || got != k {
			t.Errorf("ParseKind(%q) = %v, %v", k, got, err)
		}
	}
	for p := range Policy(policies) {
		if got, err := ParsePolicy(p.String()); err != nil || got != p {
			t.Errorf("ParsePolicy(%q) = %v, %v", p, got, err)
		}
	}
	for s := range Stamp(stamps) {
		if got, err := ParseStamp(s.String()); err != nil || got != s {
			t.Errorf("ParseStamp(%q) = %v, %v", s, got, err)
		}
	}
	if _, err := ParseKind("identity"); !errors.Is(err, ErrHandler) ||
		!strings.Contains(err.Error(), "first-last") {
		t.Errorf("ParseKind(identity) = %v, want ErrHandler and the list", err)
	}
	if _, err := ParsePolicy(""); !errors.Is(err, ErrPolicy) {
		t.Errorf("ParsePolicy() = %v", err)
	}
	if _, err := ParseStamp("tsc"); !errors.Is(err, ErrStamp) {
		t.Errorf("ParseStamp(tsc) = %v", err)
	}
	if Kind(200).String() != "kind-200" || Kind(200).Known() || Policy(9).Known() ||
		Stamp(9).Known() {
		t.Error("numbers of a later version must be known as unknown")
	}
}

// The numbers of kinds, policies and stamps never change, because they are in shared memory and in
// files.
func TestNumbersDoNotMove(t *testing.T) {
	got := []uint8{
		uint8(Null), uint8(Identity), uint8(Buffered), uint8(Counter), uint8(Downsample),
		uint8(XoY), uint8(FirstLast), uint8(Link),
		uint8(Block), uint8(Drop), uint8(Overwrite),
		uint8(Ordered), uint8(Unordered),
	}
	want := []uint8{0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 0, 1}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("numbers = %v, want %v", got, want)
		}
	}
}

func TestNewSettings(t *testing.T) {
	tests := []struct {
		handler string
		params  Params
		want    Settings
		text    string
		err     error
		say     string
	}{
		{handler: "null", want: Settings{}, text: "null"},
		{handler: "buffered", want: Settings{Kind: Buffered}, text: "buffered"},
		{handler: "xoy", params: Params{"x": 2, "y": "1KiB"}, want: Settings{XoY, 2, 1024},
			text: "xoy x=2 y=1024"},
		{handler: "xoy", params: Params{"x": 0, "y": 1}, want: Settings{XoY, 0, 1},
			text: "xoy x=0 y=1"},
		{handler: "xoy", params: Params{"x": uint8(1), "y": 1.0}, want: Settings{XoY, 1, 1},
			text: "xoy x=1 y=1"},
		{handler: "downsample", params: Params{"n": "1K"}, want: Settings{Downsample, 1000, 0},
			text: "downsample n=1000"},
		{handler: "counter", want: Settings{Counter, 1e9, 0}, text: "counter period=1s"},
		{handler: "counter", params: Params{"period": "50ms"}, want: Settings{Counter, 50e6, 0},
			text: "counter period=50ms"},
		{handler: "counter", params: Params{"period": time.Minute},
			want: Settings{Counter, 60e9, 0}, text: "counter period=1m0s"},

		{handler: "identity", err: ErrHandler, say: "use one of"},
		{handler: "downsample", err: ErrParameter, say: `"n" is missing`},
		{handler: "downsample", params: Params{"n": 0}, err: ErrParameter, say: "n = 0"},
		{handler: "downsample", params: Params{"n": -5}, err: ErrParameter, say: "-5"},
		{handler: "downsample", params: Params{"n": "-5"}, err: ErrParameter, say: `"-5"`},
		{handler: "downsample", params: Params{"n": 1.5}, err: ErrParameter, say: "1.5"},
		{handler: "downsample", params: Params{"n": math.NaN()}, err: ErrParameter, say: "NaN"},
		{handler: "downsample", params: Params{"n": nil}, err: ErrParameter, say: "nil"},
		{handler: "downsample", params: Params{"n": "10 apples"}, err: ErrParameter,
			say: "unknown unit"},
		{handler: "downsample", params: Params{"n": "99999999999T"}, err: ErrParameter,
			say: "above"},
		{handler: "downsample", params: Params{"n": 3, "m": 4}, err: ErrParameter, say: `"m"`},
		{handler: "xoy", params: Params{"x": 1, "y": 0}, err: ErrParameter, say: "y = 0"},
		{handler: "xoy", params: Params{"x": 3, "y": 2}, err: ErrParameter, say: "above y"},
		{handler: "counter", params: Params{"period": "0s"}, err: ErrParameter, say: "1ms"},
		{handler: "counter", params: Params{"period": "-1s"}, err: ErrParameter, say: "duration"},
		{handler: "id", params: Params{"n": 1}, err: ErrParameter, say: "takes none"},
	}
	for _, test := range tests {
		got, err := NewSettings(test.handler, test.params)
		if test.err != nil {
			if !errors.Is(err, test.err) || !strings.Contains(err.Error(), test.say) {
				t.Errorf("NewSettings(%s, %v) = %v, want %q and %v", test.handler, test.params, err,
					test.say, test.err)
			}
			continue
		}
		if err != nil || got != test.want {
			t.Errorf("NewSettings(%s, %v) = %+v, %v, want %+v", test.handler, test.params, got, err,
				test.want)
		}
		if got.String() != test.text {
			t.Errorf("%+v.String() = %q, want %q", got, got, test.text)
		}
	}
}

// Settings that are read from shared memory are checked by the same rules as settings that are
// given by a handler's name and its parameters.
func TestValidateRefusesWhatNoHandlerTakes(t *testing.T) {
	for _, s := range []Settings{
		{Kind: 8}, {Kind: 255}, {Kind: Downsample}, {Kind: XoY}, {Kind: XoY, A: 1},
		{Kind: XoY, A: 2, B: 1},
		{Kind: Counter}, {Kind: Counter, A: 1}, {Kind: Counter, A: 1 << 63}, {Kind: Null, A: 1},
		{Kind: Identity, B: 1}, {Kind: Downsample, A: 1, B: 1},
	} {
		if err := s.Validate(); err == nil {
			t.Errorf("%+v passes", s)
		}
	}
}

func TestParseCountUnits(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "10": 10, "10B": 10, "1k": 1000, "1KB": 1000, "1kB": 1000, "1Ki": 1024,
		"1KiB": 1024, "2 MiB": 2 << 20,
		"3MB": 3e6, "1G": 1e9, "1GiB": 1 << 30, "1T": 1e12, "1TiB": 1 << 40,
		"18446744073709551615": 1<<64 - 1,
	} {
		if got, err := ParseCount(text); err != nil || got != want {
			t.Errorf("ParseCount(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ", "K", "1.5K", "0x10", "1 K B", "18446744073709551616",
		"1e3"} {
		if got, err := ParseCount(text); !errors.Is(err, ErrParameter) {
			t.Errorf("ParseCount(%q) = %d, %v, want ErrParameter", text, got, err)
		}
	}
}

func TestID(t *testing.T) {
	id, err := NewID(0x2AAA, 0x155, 0x12_3456_789A)
	if err != nil || id != 0x2AAA<<50|0x155<<40|0x12_3456_789A {
		t.Fatalf("NewID = %#x, %v", id, err)
	}
	for _, bad := range []struct {
		node, instance int
		count          uint64
	}{
		{-1, 0, 0}, {MaxNode + 1, 0, 0}, {0, -1, 0}, {0, MaxInstance + 1, 0}, {0, 0, MaxCount + 1},
		{MaxNode, MaxInstance, MaxCount},
	} {
		if id, err := NewID(bad.node, bad.instance, bad.count); !errors.Is(err, ErrID) {
			t.Errorf("NewID(%+v) = %#x, %v, want ErrID", bad, id, err)
		}
	}
}

func TestWhatKindsKeep(t *testing.T) {
	for k := Null; k < kinds; k++ {
		all := slices.Contains([]string{"id", "buffered"}, k.String())
		some := slices.Contains([]string{"downsample", "xoy"}, k.String())
		if k.KeepsAll() != all || k.KeepsSome() != some {
			t.Errorf("%s: keeps all %v, some %v", k, k.KeepsAll(), k.KeepsSome())
		}
	}
}
