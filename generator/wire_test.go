package generator

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"
)

func TestWireBytes(t *testing.T) {
	message := appendHeader(nil, kindTuples, 2)
	message = appendTuple(message, Tuple{0x0102030405060708, []byte("ab")})
	message = appendTuple(message, Tuple{9, []byte("c")})
	const want = "435047" + "01" + "01" + "00" + "0200" + // magic, version, kind, reserved, count
		"02000000" + "0807060504030201" + "6162" + "01000000" + "0900000000000000" + "63"
	if got := hex.EncodeToString(message); got != want {
		t.Errorf("tuples: %s, want %s", got, want)
	}
	const wantEnd = "435047" + "01" + "02" + "00" + "0000" + // as above
		"ffffffffffffffff" + "0500000000000000" + "0700000000000000" // poison, first, sent
	if got := hex.EncodeToString(appendEnd(nil, End{5, 7})); got != wantEnd {
		t.Errorf("end: %s, want %s", got, wantEnd)
	}
	tuples := testTuples(t)
	got, prefix := tuples.GetBytes(nil, 3, 77), []byte{9, 1, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0}
	if len(got) != 277 || !bytes.Equal(got[:12], prefix) {
		t.Errorf("GetBytes: %d bytes, %x", len(got), got[:12])
	}
}

func TestFormatPageHasTheNumbers(t *testing.T) {
	page, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"`" + wireMagic + "`", "| 3 | 1 | version | 1 |", "1 tuples, 2 end",
		"1 to 131,072", "1 to 65,535",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("FORMAT.md does not say %q", want)
		}
	}
	if wireVersion != 1 || kindTuples != 1 || kindEnd != 2 || MaxTuple != 131072 ||
		maxPerMessage != 65535 {
		t.Error("a number of FORMAT.md has changed")
	}
}

// Each message that breaks a rule of FORMAT.md is malformed.
func TestMalformedMessages(t *testing.T) {
	good := appendHeader(nil, kindTuples, 2)
	good = appendTuple(good, Tuple{1, []byte("abc")})
	good = appendTuple(good, Tuple{2, []byte("d")})
	change := func(at int, to byte) []byte { b := bytes.Clone(good); b[at] = to; return b }
	poisoned := appendTuple(appendHeader(nil, kindTuples, 1), Tuple{Poison, []byte("x")})
	end := appendEnd(nil, End{1, 2})
	harmless := bytes.Clone(end)
	clear(harmless[8:16])
	for name, message := range map[string][]byte{
		"empty":              {},
		"short":              good[:7],
		"magic":              change(0, 'X'),
		"version":            change(3, 2),
		"kind":               change(4, 9),
		"reserved":           change(5, 1),
		"no tuple":           appendHeader(nil, kindTuples, 0),
		"count too high":     change(6, 3),
		"count too low":      change(6, 1),
		"cut":                good[:len(good)-1],
		"more behind":        append(bytes.Clone(good), 0),
		"no length":          change(8, 0),
		"length beyond":      change(8, 200),
		"huge length":        change(11, 255),
		"poison as id":       poisoned,
		"end cut":            end[:len(end)-1],
		"end without poison": harmless,
	} {
		before := []Tuple{{ID: 42}}
		got, e, err := parseMessage(message, before)
		if !errors.Is(err, ErrMalformed) || e != nil || len(got) != 1 || got[0].ID != 42 {
			t.Errorf("%s: %v, %v, %v", name, got, e, err)
		}
	}
}

func FuzzParseMessage(f *testing.F) {
	f.Add(appendTuple(appendHeader(nil, kindTuples, 1), Tuple{1, []byte("abc")}))
	f.Add(appendEnd(nil, End{1, 2}))
	f.Fuzz(func(t *testing.T, message []byte) {
		tuples, end, err := parseMessage(message, nil)
		if err != nil {
			if len(tuples) > 0 || end != nil {
				t.Fatal("an error with a result")
			}
			return
		}
		// A message that was parsed is the same when it is written again.
		var again []byte
		if end != nil {
			again = appendEnd(nil, *end)
		} else {
			again = appendHeader(nil, kindTuples, len(tuples))
			for _, tuple := range tuples {
				again = appendTuple(again, tuple)
			}
		}
		if !bytes.Equal(again, message) {
			t.Fatalf("%x was read as %x", message, again)
		}
	})
}
