package coordinator

import (
	"fmt"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// These limits restrict the list of what a run lacks. Without limits, a node could report missing
// parts without end.
const (
	maxMissing     = 10_000 // limit for a whole run
	maxMissingPart = 64     // limit for one part of a run
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
		m.Reason = "more is missing than is listed here"
		fallthrough
	default:
		r.missing = append(r.missing, m)
	case maxMissingPart:
	}
}

// maxEpochs limits the epochs of a node in one run, because each epoch costs a relation with every
// other node. No real machine is suspended that often.
const maxEpochs = 64

// enter adds the node's present description to the run. changed says whether the node's epoch is
// new to the run.
func (r *run) enter(about runs.Node) (changed bool, err error) {
	of := r.draft.Run()
	known, ok := of.Node(about.Name)
	isIts := func(e runs.Epoch) bool { return e.Epoch == about.Epoch }
	if ok && len(known.Earlier) >= maxEpochs && !slices.ContainsFunc(known.Epochs(), isIts) {
		return true, fmt.Errorf("its counter was interrupted more than %d times: "+
			"trains of epoch %q are not kept", maxEpochs, about.Epoch)
	}
	err = r.draft.Update(func(run *runs.Run) { changed = run.Enter(about) })
	return changed, err
}

// takes reports whether trains between two counters belong in the run.
func (r *run) takes(a, b tscratio.Node) bool {
	return r.gathers() && !r.completing && r.draft.Takes(a, b)
}
