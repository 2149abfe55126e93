package config

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func parse(t testing.TB, text string) *File {
	t.Helper()
	f, err := Parse("x.conf", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestSyntax(t *testing.T) {
	f := parse(t, `# a comment
! another one
SIZE 10
  spaced   =  a b  c
colon: v
flag
protocol.x Class
{
	one 1
	sub Other
	{
		deep SIZE
	}
}
long a\
  b
`)
	for key, want := range map[string]string{"SIZE": "10", "spaced": "a b  c", "colon": "v",
		"flag": "", "protocol.x": "Class", "protocol.x.one": "1", "protocol.x.sub": "Other",
		"protocol.x.sub.deep": "SIZE", "long": "ab"} {
		if got := f.Text(key, "absent"); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if f.Line("protocol.x.sub.deep") != 12 {
		t.Errorf("line %d, want 12", f.Line("protocol.x.sub.deep"))
	}
}

func TestBadSyntax(t *testing.T) {
	for text, want := range map[string]string{
		"{\n": "" +
			`read "x.conf": line 1: no key stands before the brace`,
		"a 1\n}\n":      `read "x.conf": line 2: this brace closes nothing`,
		"a 1\n{\nb 2\n": `read "x.conf": a brace after key "a" is not closed`,
		"a 1\nb 2\na 3\n": "" +
			`read "x.conf": line 3: key "a" was already given in line 1`,
		strings.Repeat("a", maxLineLength+1): "" +
			`read "x.conf": line 1: bufio.Scanner: token too long`,
	} {
		_, err := Parse("x.conf", strings.NewReader(text))
		if err == nil || err.Error() != want {
			t.Errorf("%.20q: %v, want %s", text, err, want)
		}
	}
}

func TestExpressions(t *testing.T) {
	const keys = "A B+C\nB D+E\nC E+F\nD 1\nE F\nF 2\nMAG 2\nHALF 0.5\n" +
		"CYCLE 1000*1000000000000\n"
	for text, want := range map[string]float64{"A": 7, "2^MAG": 4, "2^MAG^3": 256, "-2^2": -4,
		"7/2": 3, "7/2.0": 3.5, "7%4": 3, "-7%4": -3, "(1+2)*3": 9, "1+2*3": 7, "HALF*4": 2,
		"1e3": 1000, "(CYCLE*0)/100": 0, "CYCLE*100": 1e17, "10ms": 1e7, "1.5s/3": 5e8,
		"2m+1h": 3720e9, "sqrt(16)": 4, "2^-1": 0.5, "10^6": 1e6, " 1 ": 1} {
		f := parse(t, keys+"x "+text)
		if got := f.MustFloat("x", math.Inf(-1), math.Inf(1)); got != want || f.errs != nil {
			t.Errorf("%s is %v, want %v %v", text, got, want, f.errs)
		}
	}
}

// TestErrors has every mistake that a configuration can contain. Each error has the line and the
// nearest key.
func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"SIZE 10\nn SIZZE": "" +
			`x.conf:2: key "n": "SIZZE" is neither a number nor a key; ` +
			`the nearest key is "SIZE" of line 1`,
		"SIZE x\nn SIZE": `x.conf:2: key "n": "x" in the value of "SIZE" ` +
			`is neither a number nor a key`,
		"SIZE\nn SIZE": `x.conf:2: key "n": key "SIZE" has no value`,
		"n m\nm n": "" +
			`x.conf:1: key "n": it uses itself, or a chain of more than 100 keys`,
		"n 1+":    `x.conf:1: key "n": "1+" lacks a number at character 3`,
		"n (1":    `x.conf:1: key "n": "(1" lacks a closing parenthesis`,
		"n 1 2":   `x.conf:1: key "n": "1 2" is not understood from "2" on`,
		"n 1/0":   `x.conf:1: key "n": it divides by 0`,
		"n 9^9^9": `x.conf:1: key "n": 9^387420489 is too large`,
		"n 10x":   `x.conf:1: key "n": "10x" has the unit "x": want ns, us, ms, s, m or h`,
		"n":       `x.conf:1: key "n": a number is missing`,
		"n 200":   `x.conf:1: key "n": "200" is 200: want 0 to 100`,
		"n 1.5.2": `x.conf:1: key "n": "1.5.2" is not a number`,
		"n 2^100": `x.conf:1: key "n": "2^100" is too large`,
		"m 1":     `x.conf: key "n" is missing: add a line with this key and its value`,
		"p.a C\np.a.stp 1\nn 1": "x.conf:1: key \"p.a.step\" is missing; " +
			"the nearest key is \"p.a.stp\" of line 2\n" +
			`x.conf:2: key "p.a.stp" is unknown; the nearest key is "p.a.step"`,
		"n 1\np.b.zzz 3": `x.conf:2: key "p.b.zzz" is unknown`,
		"n 1\np.b X\norder.p a,c": "x.conf:3: key \"order.p\" names \"a\", but there is " +
			"no \"p.a\"; the nearest key is \"p.b\" of line 2\n" +
			`x.conf:3: key "order.p" names "c", but there is no "p.c"; ` +
			`the nearest key is "p.b" of line 2`,
		"n " + strings.Repeat("(", 300): `x.conf:1: key "n": the expression is nested too deeply`,
	} {
		f := parse(t, text)
		f.MustInt("n", 0, 100)
		f.Names("p")
		if f.Line("p.a") > 0 {
			f.MustInt("p.a.step", 0, 1)
		}
		if err := f.Err(); err == nil || err.Error() != want {
			t.Errorf("%.40q:\n%v\nwant\n%s", text, err, want)
		}
	}
}

// TestSetUnknown sets a constant that the file does not have. The file itself may have constants
// that it does not use. An error that is found twice is shown once.
func TestSetUnknown(t *testing.T) {
	f := parse(t, "SIZE 1\nUNUSED 5\nn SIZE\nm -1")
	f.Set("SIEZ", "9")
	f.Set("UNUSED", "6")
	f.MustInt("n", 0, 100)
	f.MustInt("m", 0, math.MaxInt64)
	f.MustInt("m", 0, math.MaxInt64)
	const want = `x.conf: key "SIEZ" is unknown; the nearest key is "SIZE" of line 1` + "\n" +
		`x.conf:4: key "m": "-1" is -1: want 0 or more`
	if err := f.Err(); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestNames(t *testing.T) {
	const three = "c.b X\nc.b.k 1\nc.a X\nc.z X\n"
	for text, want := range map[string]string{
		three:                   "[c.a c.b c.z]",
		three + "order.c z":     "[c.z c.a c.b]",
		three + "order.c b;z,a": "[c.b c.z c.a]",
		three + "include.c z a": "[c.z c.a]",
		three + "include.c":     "[]",
		three + "include.c b b": "[c.b]",
	} {
		f := parse(t, text)
		if got := fmt.Sprint(f.Names("c")); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	f := parse(t, three+"include.c a")
	f.Names("c")
	if err := f.Err(); err != nil {
		t.Errorf("the parameters of a component that is left out are judged: %v", err)
	}
}

func TestRanges(t *testing.T) {
	for text, want := range map[string]string{
		"5,9:11,13:17|2,32:128|*2": "[5 9 10 11 13 15 17 32 64 128]",
		"2^10:2^12*|2":             "[1024 2048 4096]",
		"0.1:0.3|0.1":              "[0.1 0.2]", // as in Java, 0.1+0.1+0.1 is more than 0.3
		"a,b":                      "[a b]",
	} {
		got, err := parse(t, "").listValues(text)
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s is %v %v, want %s", text, got, err, want)
		}
	}
	all, err := parse(t, "range.0 A;1:2\nrange.1 B;x,y").Experiments()
	if want := "[[{A 1} {B x}] [{A 1} {B y}] [{A 2} {B x}] [{A 2} {B y}]]"; err != nil ||
		fmt.Sprint(all) != want {
		t.Errorf("%v %v, want %s", all, err, want)
	}
	for text, want := range map[string]string{
		"range.0 A":           `x.conf:1: range "A": want a key, a semicolon and values`,
		"range.0 A;1:2|0":     `x.conf:1: range of key "A": "1:2|0" never ends`,
		"range.0 A;0:2|*2":    `x.conf:1: range of key "A": "0:2|*2" never ends`,
		"range.0 A;1:1000000": `x.conf:1: range of key "A": "1:1000000" has more than 10000 values`,
		"range.0 A;1,,2":      `x.conf:1: range of key "A": a value is missing`,
	} {
		if _, err := parse(t, text).Experiments(); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// FuzzParse checks that each key of a file has the value that the file gives it, and that no
// expression panics.
func FuzzParse(f *testing.F) {
	f.Add("A B+1\nB 2\n{\nx 3\n}\nrange.0 A;1:3|*2")
	f.Add("n 2^3^4%5/0-1e9ms")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Parse("x", strings.NewReader(text))
		if err != nil {
			return
		}
		for key, e := range file.entries {
			if e.key != key || e.line < 1 || strings.ContainsAny(e.value, "\n") {
				t.Fatalf("%q: %+v", key, e)
			}
			file.Int(key, 0, math.MaxInt64, 0)
			file.Float(key, 0, 1, 0)
		}
		file.Names("range")
		_, _ = file.Experiments()
		_ = file.Err()
	})
}
