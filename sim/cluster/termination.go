package cluster

// A simulation may end only when no process has work and no work is on its way. The report of a
// process that it is idle is no proof, because work may reach the process later. So the leader asks
// all processes to prepare. A prepared process accepts no work. Work that it refuses stays with the
// sender. The leader ends the simulation only if all processes prepare while they have neither work
// nor unanswered messages.

// An order is a message of the leader to all members.
type order uint8

const (
	nothing   order = 0
	prepare   order = 1 // accept no work, and say whether you have any
	terminate order = 2 // end, because no process has work
	goOn      order = 3 // accept work again, because some process has work
	begin     order = 4 // begin the simulation, because all processes hear each other
)

// master is the leader's part of the protocol.
type master struct {
	members  int
	idle     map[int]bool
	answers  map[int]bool
	prepared bool // the leader has asked the members to prepare, and waits for answers
	refused  bool
	ended    bool
}

func newMaster(members int) *master {
	return &master{members: members, idle: map[int]bool{}, answers: map[int]bool{}}
}

// reportIdle handles a member's report. The report says that the member has no work.
func (m *master) reportIdle(member int) order {
	if m.ended || m.prepared {
		return nothing
	}
	m.idle[member] = true
	return m.ask()
}

// leave handles a member's report that it has left. The member has given its work to the others.
func (m *master) leave() order {
	m.members--
	return m.ask()
}

// ask asks the members to prepare if all are idle.
func (m *master) ask() order {
	if len(m.idle) < m.members {
		return nothing
	}
	m.prepared, m.refused = true, false
	clear(m.answers)
	return prepare
}

// answer handles a member's answer to prepare.
func (m *master) answer(member int, ok bool) order {
	if !m.prepared {
		return nothing
	}
	m.answers[member] = true
	m.refused = m.refused || !ok
	if len(m.answers) < m.members {
		return nothing
	}
	m.prepared = false
	clear(m.idle) // the members will report again
	if m.refused {
		return goOn
	}
	m.ended = true
	return terminate
}

// member is a process's part of the protocol.
type member struct {
	work       int  // pieces of work that were accepted and are not done
	unanswered int  // pieces that were sent, and that the receiver has not answered yet
	kept       int  // pieces that a receiver refused; they are sent again after goOn
	prepared   bool // the member refuses work
	ended      bool
}

// accept reports whether the member accepts a piece of work.
func (m *member) accept() bool {
	if m.prepared || m.ended {
		return false
	}
	m.work++
	return true
}

// busy reports whether the member has work, or does not know yet whether another member accepted
// work that it sent.
func (m *member) busy() bool { return m.work > 0 || m.unanswered > 0 || m.kept > 0 }

// obey handles an order. If the order is to prepare, ok is the answer.
func (m *member) obey(o order) (ok bool) {
	switch o {
	case prepare:
		m.prepared = true
		return !m.busy()
	case goOn:
		m.prepared = false
	case terminate:
		m.ended = true
	}
	return false
}
