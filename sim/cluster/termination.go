package cluster

// A simulation may end only when no process has work and no work is on its way. If a process
// reports that it is idle, this proves nothing, because work may reach the process later. So the
// leader asks all processes to prepare. A prepared process accepts no work. Work that it refuses
// stays with the sender. The leader ends the simulation only if all processes prepare while they
// have neither work nor unanswered messages.

// memberOrder is a message of the leader to all members. The members are the processes.
type memberOrder uint8

const (
	nothing        memberOrder = 0
	prepareOrder   memberOrder = 1 // accept no work, and say whether you have any
	terminateOrder memberOrder = 2 // end, because no process has work
	goOn           memberOrder = 3 // accept work again, because some process has work
	beginOrder     memberOrder = 4 // begin the simulation: all processes hear each other
)

// terminationLeader is the leader's part in deciding that the simulation ends.
type terminationLeader struct {
	members  int
	idle     map[int]bool
	answers  map[int]bool
	prepared bool // the leader has asked the members to prepare, and waits for answers
	refused  bool
	ended    bool
}

func newMaster(members int) *terminationLeader {
	return &terminationLeader{members: members, idle: map[int]bool{}, answers: map[int]bool{}}
}

// reportIdle handles a member's report. The report says that the member has no work.
func (m *terminationLeader) reportIdle(member int) memberOrder {
	if m.ended || m.prepared {
		return nothing
	}
	m.idle[member] = true
	return m.askIfIdle()
}

// handleLeave handles a member's report that it has left. The member has given its work to the
// others.
func (m *terminationLeader) handleLeave() memberOrder {
	m.members--
	return m.askIfIdle()
}

// askIfIdle asks the members to prepare if all are idle.
func (m *terminationLeader) askIfIdle() memberOrder {
	if len(m.idle) < m.members {
		return nothing
	}
	m.prepared, m.refused = true, false
	clear(m.answers)
	return prepareOrder
}

// handleAnswer handles a member's answer to the order to prepare.
func (m *terminationLeader) handleAnswer(member int, ok bool) memberOrder {
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
	return terminateOrder
}

// terminationMember is a process's part in deciding that the simulation ends.
type terminationMember struct {
	work       int  // pieces of work that were accepted and are not done
	unanswered int  // pieces that were sent, and that the receiver has not answered yet
	kept       int  // pieces that a receiver refused; they are sent again after goOn
	prepared   bool // the member refuses work
	ended      bool
}

// acceptWork reports whether the member accepts a piece of work.
func (m *terminationMember) acceptWork() bool {
	if m.prepared || m.ended {
		return false
	}
	m.work++
	return true
}

// mayHaveWork reports whether the member has work, or does not know yet whether another member
// accepted work that it sent.
func (m *terminationMember) mayHaveWork() bool {
	return m.work > 0 || m.unanswered > 0 || m.kept > 0
}

// handleOrder handles an order. If the order is to prepare, ok is the answer.
func (m *terminationMember) handleOrder(o memberOrder) (ok bool) {
	switch o {
	case prepareOrder:
		m.prepared = true
		return !m.mayHaveWork()
	case goOn:
		m.prepared = false
	case terminateOrder:
		m.ended = true
	}
	return false
}
