package logstore

import (
	"bytes"
	"testing"
)

// A header need not say in which place (such as a pod) the program ran. If it does not say this, it
// has no line for the place, like the headers of older programs.
func TestPlaceInTheHeader(t *testing.T) {
	h := sampleHeader(t)
	if text := appendHeader(nil, &h); bytes.Contains(text, []byte("place")) {
		t.Errorf("a header without a place: %s", text)
	}
	for _, place := range []string{"pod shop/cart-1, containerd 3fca5e1d0f8c", "\"\n#\x00é"} {
		h.Place = place
		got, err := parseHeader(appendHeader(nil, &h))
		if err != nil || got.Place != place || got.ProcessID != h.ProcessID {
			t.Errorf("%q is read as %q, %v", place, got.Place, err)
		}
	}
}
