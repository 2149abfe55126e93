package coordinator

import (
	"fmt"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// What is missing is said up to these limits: who tells of it may be a node that has no end of it.
const (
	maxMissing     = 10_000 // of a run
	maxMissingPart = 64     // of a part of it
)

func (r *run) lacks(part, reason string) {
	m := runs.Missing{Part: part, Reason: control.CutTo(reason, 512)}
	if len(r.missing) >= maxMissing || slices.Contains(r.missing, m) {
		return
	}
	of := 0
	for _, known := range r.missing {
		if known.Part == part {
			of++
		}
	}
	switch of {
	case maxMissingPart - 1:
		m.Reason = "more is missing than is said here"
		fallthrough
	default:
		r.missing = append(r.missing, m)
	case maxMissingPart:
	}
}

// maxEpochs is how many epochs of a node a run keeps apart. Machines are not suspended more often,
// and each costs a relation with all others.
const maxEpochs = 64

// enter notes what a node is from now on. changed says that it has another epoch than before.
func (r *run) enter(about runs.Node) (changed bool, err error) {
	of := r.draft.Run()
	known, ok := of.Node(about.Name)
	isIts := func(e runs.Epoch) bool { return e.Epoch == about.Epoch }
	if ok && len(known.Earlier) >= maxEpochs && !slices.ContainsFunc(known.Epochs(), isIts) {
		return true, fmt.Errorf("its counter was interrupted more than %d times: what was measured in epoch %q is not kept", maxEpochs, about.Epoch)
	}
	err = r.draft.Update(func(run *runs.Run) { changed = run.Enter(about) })
	return changed, err
}

// takes says whether the run keeps what is known of two counters.
func (r *run) takes(a, b tscratio.Node) bool {
	of := r.draft.Run()
	return r.gathers() && of.PairPath(a, b) != ""
}
