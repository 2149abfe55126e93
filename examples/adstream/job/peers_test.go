package job

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// An error of this process names each node that was lost, no matter how the loss was found. It
// names no node that answers or has ended.
func TestBlame(t *testing.T) {
	gone := make(chan struct{})
	close(gone)
	later := time.Now().Add(time.Hour)
	answers := &peer{node: "answers", unasked: make(chan struct{})}
	answers.heard.Store(&later)
	p := &peers{others: []*peer{
		answers,
		{node: "ended", unasked: gone},
		{node: "lost", unasked: gone, lost: true},
		{node: "silent", unasked: make(chan struct{})},
	}}
	cause := errors.New("a look-up took too long")
	err := p.addSilent(cause)
	if !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
	for node, want := range map[string]bool{
		"answers": false, "ended": false, "lost": true, "silent": true,
	} {
		blamed := strings.Contains(err.Error(), "node "+node+" does not answer")
		if blamed != want {
			t.Errorf("node %s is to blame: %v, want %v; %v", node, blamed, want, err)
		}
	}
}
