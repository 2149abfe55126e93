package machine

import (
	"errors"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/host"
)

// "cprof doctor" says what a capture of messages would see on this machine, or why no capture is
// possible.
func TestCaptures(t *testing.T) {
	for _, c := range []struct {
		early   bool
		err     error
		verdict host.Verdict
		detail  string
	}{
		{true, nil, host.Fit, "and when"},
		{false, nil, host.Warning, "but not when"},
		{false, errors.New("this kernel is too old"), host.Warning, "this kernel is too old"},
	} {
		f := captures(func() (bool, error) { return c.early, c.err })
		if f.Verdict != c.verdict || !strings.Contains(f.Detail, c.detail) ||
			(f.Verdict != host.Fit) != (f.Remedy != "") {
			t.Errorf("%+v, want %v and %q", f, c.verdict, c.detail)
		}
	}
}
