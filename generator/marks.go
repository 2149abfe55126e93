package generator

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// A Mark is a fact that a reader of a run's numbers needs to know.
type Mark string

// This is the complete list of marks. Scripts read the marks, so new ones may only be appended.
const (
	ReceiverGone Mark = "receiver-gone" // a connection broke; tuples on their way may be lost
	Blocked      Mark = "blocked"       // an engine took nothing for a while: slow, or cut off
	Behind       Mark = "behind"        // tuples were so late that they were never sent
	Late         Mark = "late"          // this machine sent more than 1 % of the tuples late
	Unsent       Mark = "unsent"        // the run ended with tuples that the engine did not take
	Malformed    Mark = "malformed"     // a message broke FORMAT.md, or the decoder refused it
	Lost         Mark = "lost"          // tuples did not arrive
	Duplicated   Mark = "duplicated"    // tuples arrived twice
	SenderGone   Mark = "sender-gone"   // a sender ended without its poison pill, or fell silent
	Interrupted  Mark = "interrupted"   // the run was ended from outside
	NotLogged    Mark = "not-logged"    // events found a full ring: the logs lack them, and say so
)

// A Notice reports a mark as soon as the mark is made. Results contain all marks at the end.
type Notice struct {
	Mark Mark
	Text string
}

// Marks contains the marks of a run, and how often each was made. The zero value is ready to use.
// Any number of goroutines may make marks.
type Marks struct {
	mu     sync.Mutex
	counts map[Mark]uint64
	texts  map[Mark]string // text of the first time that each mark was made
	notice func(Notice)    // may be nil
}

// addMark adds n to the count of a mark. If the mark had not been made before, the method also
// sends a notice.
func (m *Marks) addMark(mark Mark, n uint64, format string, args ...any) {
	if n == 0 {
		return
	}
	m.mu.Lock()
	if m.counts == nil {
		m.counts, m.texts = map[Mark]uint64{}, map[Mark]string{}
	}
	first := m.counts[mark] == 0
	m.counts[mark] += n
	text := ""
	if first {
		text = fmt.Sprintf(format, args...)
		m.texts[mark] = text
	}
	notice := m.notice
	m.mu.Unlock()
	if first && notice != nil {
		notice(Notice{mark, text})
	}
}

// sendNotice sends a notice without counting a mark. It reports, for example, that a connection is
// back.
func (m *Marks) sendNotice(mark Mark, format string, args ...any) {
	if m.notice != nil {
		m.notice(Notice{mark, fmt.Sprintf(format, args...)})
	}
}

// notLogged adds to the mark NotLogged the number of events that were not logged because a channel
// was full.
func (m *Marks) notLogged(events uint64) {
	m.addMark(NotLogged, events,
		"%d events found no room in their channels, and are not in the logs: "+
			"no agent drains them, or it is too slow", events)
}

// A Marked is a mark, how often it was made, and the text of its notice.
type Marked struct {
	Mark  Mark   `json:"mark"`
	Count uint64 `json:"count"`
	Text  string `json:"text"`
}

func (m *Marks) list() []Marked {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []Marked
	for _, mark := range slices.Sorted(maps.Keys(m.counts)) {
		list = append(list, Marked{mark, m.counts[mark], m.texts[mark]})
	}
	return list
}
