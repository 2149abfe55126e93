package analysis

import (
	"cmp"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// forkedEvent is an event of a job that copies each tuple to several branches and joins the copies.
type forkedEvent struct {
	point  string
	node   int
	time   uint64
	causes []*forkedEvent
}

// forkJob is a job that copies tuples to branches and joins the copies. It also has the truth: what
// happened in the job, and when.
type forkJob struct {
	nodes    []simrun.Node
	channels []simrun.Channel

	actorNode    map[string]int            // by actor: its node
	index        map[string]int            // by point: its channel
	loggedEvents map[uint64][]*forkedEvent // by id: the events that were logged
	ends         map[uint64][]*forkedEvent // by id: the events where tuples ended
}

func (j *forkJob) log(id uint64, actor, point string, time uint64,
	causes ...*forkedEvent) *forkedEvent {
	name := actor + "/" + point
	if _, ok := j.index[name]; !ok {
		j.index[name] = len(j.channels)
		j.channels = append(j.channels, simrun.Channel{Node: j.actorNode[actor], Name: name})
	}
	c := &j.channels[j.index[name]]
	c.Records = append(c.Records, simrun.Record{Time: time, ID: id})
	e := &forkedEvent{point: name, node: j.actorNode[actor], time: time, causes: causes}
	j.loggedEvents[id] = append(j.loggedEvents[id], e)
	return e
}

const forkMs = simrun.Hz / 1000

// criticalPath returns the events from the end back to the beginning. From each event, it goes to
// the latest of the events directly before.
func (e *forkedEvent) criticalPath() (path []*forkedEvent) {
	for {
		path = append(path, e)
		if len(e.causes) == 0 {
			return path
		}
		e = slices.MaxFunc(e.causes, func(a, b *forkedEvent) int {
			return cmp.Compare(a.time,
				b.time)
		})
	}
}

// trueElapsed is the true time between two events, in cycles of the reference.
func (j *forkJob) trueElapsed(from, to *forkedEvent) int64 {
	return int64(j.nodes[0].Reading(to.time) - j.nodes[0].Reading(from.time))
}
