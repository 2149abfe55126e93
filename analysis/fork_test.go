package analysis

import (
	"cmp"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// forked is an event of a job that copies each tuple to several branches and joins the copies.
type forked struct {
	point  string
	node   int
	time   uint64
	causes []*forked
}

// forkJob is a job that copies tuples to branches and joins the copies. It also has the truth: what
// happened in the job, and when.
type forkJob struct {
	nodes    []simrun.Node
	channels []simrun.Channel

	where map[string]int       // by actor: its node
	index map[string]int       // by point: its channel
	seen  map[uint64][]*forked // by id: the events that were logged
	ends  map[uint64][]*forked // by id: the events where tuples ended
}

func (j *forkJob) log(id uint64, actor, point string, time uint64, causes ...*forked) *forked {
	name := actor + "/" + point
	if _, ok := j.index[name]; !ok {
		j.index[name] = len(j.channels)
		j.channels = append(j.channels, simrun.Channel{Node: j.where[actor], Name: name})
	}
	c := &j.channels[j.index[name]]
	c.Records = append(c.Records, simrun.Record{Time: time, ID: id})
	e := &forked{point: name, node: j.where[actor], time: time, causes: causes}
	j.seen[id] = append(j.seen[id], e)
	return e
}

const forkMs = simrun.Hz / 1000

// criticalPath returns the events from the end back to the beginning. From each event, it goes to
// the latest of the events directly before.
func (e *forked) criticalPath() (path []*forked) {
	for {
		path = append(path, e)
		if len(e.causes) == 0 {
			return path
		}
		e = slices.MaxFunc(e.causes, func(a, b *forked) int { return cmp.Compare(a.time, b.time) })
	}
}

// elapsed is the true time between two events, in cycles of the reference.
func (j *forkJob) elapsed(from, to *forked) int64 {
	return int64(j.nodes[0].Reading(to.time) - j.nodes[0].Reading(from.time))
}
