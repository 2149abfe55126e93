package fleet

import (
	"testing"
	"time"
)

// A command that waits says so after two seconds, and then once for each thing that it waits for.
func TestSlowWait(t *testing.T) {
	now := time.Now()
	s := slowWait{since: now}
	for i, step := range []struct {
		after time.Duration
		what  string
		want  bool
	}{
		{0, "sweep", false}, {slowAfter - 1, "sweep", false}, {slowAfter, "sweep", true},
		{slowAfter + 1, "sweep", false}, {time.Hour, "collect", true},
		{time.Hour, "collect", false},
	} {
		if got := s.news(now.Add(step.after), step.what); got != step.want {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
}
