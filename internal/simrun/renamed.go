package simrun

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// RandomRenamingJob is a RandomJob in which some operators send tuples on under other ids, and log
// links. If a tuple has several ids, the job has a separate Tuple for each. Join makes them one
// Tuple.
func RandomRenamingJob(rng *rand.Rand, thin bool) *Job { return randomJob(rng, thin, true) }

// rename sends a tuple on under another id. It returns the first event of the new id.
func (m *jobMaker) rename(from *Event, actor string, instance int) *Event {
	again := func() *Event {
		m.renamed++
		t := &Tuple{ID: 1<<61 | m.renamed, Parents: []*Tuple{from.Tuple}, Renamed: from}
		m.Tuples = append(m.Tuples, t)
		sent := m.log(t, actor, instance, "send", from.Time+m.step())
		m.link(from.Tuple, t, actor, instance)
		return sent
	}
	sent := again()
	if m.forking && m.rng.IntN(50) == 0 {
		again()
	}
	if m.ending {
		m.log(from.Tuple, actor, instance, "end", sent.Time+m.step(), from)
	}
	return sent
}

// Join merges two Tuples into one if one of the given operators renamed the first: it sent this
// tuple on with the id of the second.
func (j *Job) Join(operators []string) {
	under := map[*Tuple]*Tuple{}
	j.Tuples = slices.DeleteFunc(j.Tuples, func(t *Tuple) bool {
		for i, p := range t.Parents {
			if began := under[p]; began != nil {
				t.Parents[i] = began
			}
		}
		actor, _, _ := strings.Cut(t.Events[0].Point, "/")
		if t.Renamed == nil || !slices.Contains(operators, actor) {
			return false
		}
		began := t.Parents[0]
		under[t] = began
		for _, e := range t.Events {
			e.Tuple = began
			if len(e.Causes) == 0 {
				e.Causes = []*Event{t.Renamed}
				edge := [2]string{t.Renamed.Point, e.Point}
				if !slices.Contains(j.Edges, edge) {
					j.Edges = append(j.Edges, edge)
				}
			}
		}
		began.Events = append(began.Events, t.Events...)
		return true
	})
	slices.SortFunc(j.Edges, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
}
