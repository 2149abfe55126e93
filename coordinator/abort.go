package coordinator

import (
	"errors"
	"fmt"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// endRun records when the run ended, unless an end is already recorded.
func (c *core) endRun() {
	if err := c.run.draft.Update(func(r *runs.Run) {
		if r.Ended.IsZero() {
			r.Ended = endOf(r.Begun, c.now())
		}
	}); err != nil {
		c.log.Error("record the end of the run", "error", err)
	}
}

// endOf returns an interval of UTC for the end of a run that ends at the moment now. begun is the
// interval for the run's beginning. If the clock was set back during the run, the result may lie
// before begun. So endOf never returns a lower Hi_ns than that of begun.
func endOf(begun runs.UTC, now time.Time) runs.UTC {
	end := runs.UTCOf(now, utcSlack)
	end.Hi_ns = max(end.Hi_ns, begun.Hi_ns)
	return end
}

// abortRun ends the run at once and keeps the data that has already arrived. It waits for no node.
func (c *core) abortRun() error {
	r := c.run
	if r == nil {
		return errors.New("no run is under way")
	}
	if r.aborted {
		return fmt.Errorf("run %q is being aborted already", r.name())
	}
	r.lacks("run.yaml", fmt.Sprintf("the run was aborted: %s", r.phase))
	if c.sweep != nil { // this sweep belongs to the run: during a run there is no other
		c.sweep, c.swept = nil, c.now()
	}
	r.aborted = true
	if !r.again {
		c.enter(PhaseClosing)
		c.targetsChanged()
		c.endRun()
		for _, n := range c.sorted() {
			// A node may have opened the run although its answer that says so is still on the way.
			// So all nodes are told to close it.
			if n.alive() && n.can(control.CanRun) {
				c.ask(n, &control.Run{Name: r.name(), Close: true}, c.config.AnswerLimit,
					closingRun, func(control.Message, error) {})
			}
		}
	}
	if r.keeping == 0 {
		c.completeRun()
	}
	return nil
}
