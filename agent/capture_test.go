package agent

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// fakeCapture notes the calls of its methods.
type fakeCapture struct{ done []string }

func (f *fakeCapture) Counts() CaptureCounts {
	return CaptureCounts{Messages: 7, Lost: map[string]uint64{"buffer full": 2}}
}

func (f *fakeCapture) Flush() { f.done = append(f.done, "flush") }

func (f *fakeCapture) Close() error {
	f.done = append(f.done, "close")
	return nil
}

// A capture is started and stopped by orders, and ends with the agent. Before a run begins or ends,
// the capture moves everything that it has seen into the ring.
func TestCapture(t *testing.T) {
	fake, started := &fakeCapture{}, 0
	c := testConfig(t)
	c.Capture = func(rings string) (Capture, error) {
		started++
		if rings != c.Rings {
			t.Errorf("rings %q, want %q", rings, c.Rings)
		}
		return fake, nil
	}
	a := startTest(t, c)
	local, err := Connect(c.Rings)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := local.StopCapture(t.Context()); err != nil || s.Running {
		t.Errorf("%+v, %v", s, err)
	}
	for range 2 {
		s, err := local.StartCapture(t.Context())
		if err != nil || !s.Running || s.Messages != 7 || s.Lost["buffer full"] != 2 ||
			s.Since.IsZero() {
			t.Errorf("%+v, %v", s, err)
		}
	}
	if s, err := local.Status(t.Context()); err != nil || !s.Capture.Running || started != 1 {
		t.Errorf("%+v, %v, started %d times", s.Capture, err, started)
	}
	if _, err := local.OpenRun(t.Context(), "r"); err != nil {
		t.Error(err)
	}
	if _, err := local.CloseRun(t.Context(), "r"); err != nil {
		t.Error(err)
	}
	if s, err := local.StopCapture(t.Context()); err != nil || s.Running {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := local.StartCapture(t.Context()); err != nil || started != 2 {
		t.Errorf("%v, started %d times", err, started)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	want := []string{"flush", "flush", "close", "close"}
	if !slices.Equal(fake.done, want) {
		t.Errorf("%q, want %q", fake.done, want)
	}
	if err := a.StartCapture(); !errors.Is(err, ErrNoCapture) {
		t.Errorf("after the end: %v", err)
	}
}

// If a capture is not possible, the agent says why, and does everything else as usual.
func TestCaptureRefused(t *testing.T) {
	for what, capture := range map[string]func(string) (Capture, error){
		"the kernel is too old": func(string) (Capture, error) {
			return nil, errors.New("the kernel is too old")
		},
		"capture ready or on": nil,
	} {
		c := testConfig(t)
		c.Capture = capture
		startTest(t, c)
		local, err := Connect(c.Rings)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := local.StartCapture(t.Context()); err == nil ||
			!strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
		ch := open(t, c, "a/b", handlers.Options{})
		logIDs(ch, 0, 10)
		if err := local.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if s, err := local.Status(t.Context()); err != nil || s.Total.Events != 10 ||
			s.Capture.Running {
			t.Errorf("%+v, %v", s, err)
		}
	}
}
