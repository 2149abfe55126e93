package bench

import "testing"

// The figures have the trends of the thesis on replay clocks. A larger skew or a higher rate gives
// more offsets. The length of an epoch and the number of processes matter little.
func TestClocksHaveTheTrendsOfTheThesis(t *testing.T) {
	const events = 20_000
	base := ClockSetting{Processes: 32, Skew_us: 2000, Epoch_us: 20, Delay_us: 8, Rate_hz: 40}
	offsets := func(change func(*ClockSetting)) float64 {
		s := base
		change(&s)
		r := SimulateClocks(s, events, 1)
		if r.Broken > 0 {
			t.Errorf("%+v: %d events refute the skew", s, r.Broken)
		}
		return r.Offsets
	}
	now := offsets(func(*ClockSetting) {})
	if low := offsets(func(s *ClockSetting) { s.Rate_hz = 20 }); low < 1.4 || low > 1.7 {
		t.Errorf("at 20 messages/s a stamp holds %.2f processes, and 1.55 by the digest", low)
	}
	for name, c := range map[string]struct {
		change      func(*ClockSetting)
		least, most float64 // of the change
	}{
		"a larger skew":  {func(s *ClockSetting) { s.Skew_us = 6000 }, 0.05, 1},
		"a higher rate":  {func(s *ClockSetting) { s.Rate_hz = 160 }, 0.3, 3},
		"a longer epoch": {func(s *ClockSetting) { s.Epoch_us = 100 }, -0.1, 0.1},
		"more processes": {func(s *ClockSetting) { s.Processes = 64 }, -0.1, 0.1},
		"a proven skew":  {func(s *ClockSetting) { s.Skew_us, s.Epoch_us = 40, 4 }, -0.4, -0.1},
		"a larger delay": {func(s *ClockSetting) { s.Delay_us = 5000 }, -1, -0.3},
	} {
		if d := offsets(c.change) - now; d < c.least || d > c.most {
			t.Errorf("%s changes what a stamp holds by %.2f, not by %.2f to %.2f", name, d, c.least,
				c.most)
		}
	}
}
