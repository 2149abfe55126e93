package job

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMessageBytes(t *testing.T) {
	m := message{kindTuple, 0x0102, 0x030405060708090a, 0x0b0c0d0e0f101112, []string{"ab", "", "c"}}
	want := []byte{
		2, 1, 2,
		3, 4, 5, 6, 7, 8, 9, 10,
		11, 12, 13, 14, 15, 16, 17, 18,
		2, 'a', 'b', 0, 1, 'c',
	}
	b := m.append(nil)
	if !bytes.Equal(b, want) {
		t.Errorf("message % x\nwant    % x", b, want)
	}
	var got message
	if err := got.parse(b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, got, cmp.AllowUnexported(message{})); diff != "" {
		t.Error(diff)
	}
	tooLong := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}
	for name, bad := range map[string][]byte{
		"nothing":      nil,
		"short":        want[:headerSize-1],
		"unknown kind": slices.Concat([]byte{4}, want[1:]),
		"kind 0":       slices.Concat([]byte{0}, want[1:]),
		"cut field":    want[:len(want)-1],
		"long field":   slices.Concat(want, tooLong),
		"cut length":   slices.Concat(want, []byte{0x80}),
	} {
		if err := got.parse(bad); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// A message that parse accepts is the same after it was written and read again.
func FuzzMessage(f *testing.F) {
	f.Add((&message{kindTuple, 1, 2, 3, []string{"a", "bc"}}).append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, again message
		if m.parse(b) != nil {
			return
		}
		if err := again.parse(m.append(nil)); err != nil {
			t.Fatal(err)
		}
		if len(m.fields) == 0 {
			m.fields, again.fields = nil, nil
		}
		if diff := cmp.Diff(m, again, cmp.AllowUnexported(message{})); diff != "" {
			t.Error(diff)
		}
	})
}
