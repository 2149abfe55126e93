package tscclient

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// An acknowledgement concerns all reports up to a number. So the client must never send a report
// while the server lacks one with a smaller number.
func TestReportsAreSentInTheirOrder(t *testing.T) {
	var got []uint64
	var fails error
	r := newReports(func(_ context.Context, m *control.Trains) error {
		if fails == nil {
			got = append(got, m.Report)
		}
		return fails
	})
	answer := func() {
		m := &control.Trains{}
		r.reportBatch(t.Context(), m, func() { got = append(got, m.Report) })
	}
	outcome := Outcome{Epoch: "e", Peer: Peer{Node: tscratio.Node{Name: "b", Epoch: "e"}}}
	r.collectTrain(outcome)
	r.sendAll(t.Context(), true)
	answer()
	r.sendAgain() // the server is a new process, and at once sends an order
	answer()
	if want := []uint64{1, 2, 1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("reports came as %d, want %d", got, want)
	}
	got, fails = nil, errors.New("nobody listens")
	r.sendAgain()
	answer()
	if len(got) > 0 {
		t.Errorf("reports %d came before those that could not be sent", got)
	}
	fails = nil
	r.sendAll(t.Context(), true)
	if want := []uint64{1, 2, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("reports came as %d, want %d", got, want)
	}
}
