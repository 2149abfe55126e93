package ring

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// This file simulates a machine with weakly ordered memory, as section Order of FORMAT.md describes
// it. Each thread is a short program. The machine performs the accesses of a thread in any order
// that FORMAT.md allows, and the accesses of several threads in any interleaving. A branch between
// two accesses does not order them on this machine, because FORMAT.md relies on no such order. The
// words look, publish and fence mean what FORMAT.md says. Like arm64 and x86, the machine makes a
// store visible to all other threads at the same moment. order_contract_test.go has the programs.
//
// A program has one access or fence on each line:
//
//	load X -> r     a plain load into register r; look X -> r: a look
//	pread X -> r    the kernel loads the halves of X separately, into the registers r and r'
//	wait X v        a plain load of X, which happens only when X is v or more
//	await X v       the same with a look
//	mark X v        a plain load of X, which happens only when X has the same lap mark as v
//	store X v       a plain store of a number or a register; publish X v: a publish
//	reserve X -> r  r = X, X = r + 1, with no other reservation in between: a look and a publish,
//	                with later accesses perhaps between the two; take X -> r: plain accesses
//	fence           a fence
//
// X[v] is place v mod places of X. A "?" at an operation means that this exchange also works
// without the operation's order: see forEachWeakening.
const places = 2

// A step is one access of a program.
type step struct {
	op         string
	name       string // name of the word, without the place
	word       int    // the number of the word, or of its place 0
	index      operand
	arg        operand // what is stored, or what a load waits for
	into       int     // the register that is loaded, or unknown
	needs      uint32  // earlier steps that must be performed before this one
	maybeNeeds uint32  // the same, but only if both are at one place
}

// An operand is a number, or the content of a register plus a number.
type operand struct {
	register int // number of a register, or unknown
	n        int
}

func (s *step) is(ops ...string) bool { return slices.Contains(ops, s.op) }
func (s *step) stores() bool          { return s.is("store", "publish", "reserved", "taken") }
func (s *step) looks() bool           { return s.is("look", "await", "reserve") }
func (s *step) publishes() bool       { return s.is("publish", "reserved") }

// programLines returns the operations of a program.
func programLines(program string) (all []string) {
	for line := range strings.FieldsFuncSeq(program, func(r rune) bool {
		return r == '\n' || r == ';'
	}) {
		all = append(all, strings.TrimSpace(line))
	}
	return all
}

// compile turns the text of a thread's program into its accesses, and finds their order.
func (m *machine) compile(thread int, program []string) (steps []step) {
	var fences []int // each is the number of accesses before a fence
	for _, line := range program {
		f := strings.Fields(strings.Replace(line, "?", "", 1))
		if f[0] == "fence" {
			fences = append(fences, len(steps))
			continue
		}
		s := step{op: f[0], index: operand{register: unknownNumber}, into: unknownNumber,
			arg: m.operand(thread, f[len(f)-1])}
		name, index, placed := strings.Cut(strings.TrimSuffix(f[1], "]"), "[")
		s.name, s.word = name, numberOf(m.words, name)
		if placed {
			s.word, s.index = numberOf(m.words, name+"[0]"), m.operand(thread, index)
			numberOf(m.words, name+"[1]")
		}
		if f[2] == "->" {
			s.into = s.arg.register
		}
		steps = append(steps, s)
		switch s.op {
		case "pread":
			s.into = m.operand(thread, f[3]+"'").register
			steps = append(steps, s)
		case "reserve", "take":
			s.op = map[string]string{"reserve": "reserved", "take": "taken"}[s.op]
			s.arg.n, s.into = 1, unknownNumber
			steps = append(steps, s)
		}
	}
	for i := range steps {
		for k := range i {
			a, b := &steps[k], &steps[i]
			fenced := slices.ContainsFunc(fences, func(at int) bool { return k < at && at <= i })
			switch {
			case a.looks(), b.publishes(), fenced && (!a.stores() || b.stores()):
				b.needs |= 1 << k
			case a.name == b.name && (a.stores() || b.stores()):
				b.maybeNeeds |= 1 << k
			}
		}
	}
	return steps
}

// operand compiles the text of an operand: a number, the name of a register, or a register plus 1.
func (m *machine) operand(thread int, text string) operand {
	if n, err := strconv.Atoi(text); err == nil {
		return operand{unknownNumber, n}
	}
	register, more := strings.CutSuffix(text, "+1")
	o := operand{register: numberOf(m.regs, fmt.Sprint(thread, register))}
	if more {
		o.n = 1
	}
	return o
}

const unknownNumber = -1

// machineState is a state of the machine.
type machineState struct {
	done     [4]uint32 // the steps that each thread has performed
	words    [24]int8
	regs     [40]int8
	reserved int8 // 1: a thread is between the two accesses of a reservation
}

// A machine explores all executions of its threads.
type machine struct {
	threads     [][]step
	words, regs map[string]int
	seen        map[machineState]bool
	judge       func(thread int, regs func(string) int) (accepted bool, fault string)
	accepted    [4]bool
	fault       string
}

func (m *machine) explore(now machineState) {
	if m.seen[now] || m.fault != "" {
		return
	}
	m.seen[now] = true
	for t, steps := range m.threads {
		for i := range steps {
			if next, ok := m.perform(now, t, i); ok {
				if next.done[t] == 1<<len(steps)-1 {
					m.judgeThread(&next, t)
				}
				m.explore(next)
			}
		}
	}
}

func (m *machine) judgeThread(at *machineState, t int) {
	accepted, fault := m.judge(t, func(register string) int {
		return at.value(m.operand(t, register))
	})
	m.accepted[t] = m.accepted[t] || accepted
	if fault != "" {
		m.fault = fmt.Sprintf("thread %d: %s", t, fault)
	}
}

// perform returns the state after step i of thread t. It returns false if the step cannot be
// performed now.
func (m *machine) perform(now machineState, t, i int) (machineState, bool) {
	s := &m.threads[t][i]
	if now.done[t]>>i&1 == 1 || s.needs&^now.done[t] != 0 {
		return now, false
	}
	at, arg := now.accessedWord(s), 0
	for k := range i {
		if s.maybeNeeds&^now.done[t]>>k&1 == 1 {
			if other := now.accessedWord(&m.threads[t][k]); other == at || other == unknownNumber {
				return now, false
			}
		}
	}
	if s.into == unknownNumber {
		arg = now.value(s.arg)
	}
	if at == unknownNumber || arg == unknownNumber {
		return now, false
	}
	now.done[t] |= 1 << i
	word := &now.words[at]
	if s.into != unknownNumber {
		now.regs[s.into] = *word
	}
	switch s.op {
	case "wait", "await":
		return now, int(*word) >= arg
	case "mark":
		return now, lapOfWord(int(*word)) == lapOfWord(arg)
	case "store", "publish":
		*word = int8(arg)
	case "reserve", "take":
		free := now.reserved == 0
		now.reserved = 1
		return now, free
	case "reserved", "taken":
		*word, now.reserved = int8(arg), 0
	}
	return now, true
}

// lapOfWord returns the lap mark of a record's counter word. In these tests the word does not
// contain a counter: it is 0 before anything is written, and n + 1 once record n is written.
func lapOfWord(word int) int { return ((word + places - 1) / places) & 1 }

// accessedWord returns the number of the word that a step accesses, or unknown.
func (now *machineState) accessedWord(s *step) int {
	i := now.value(s.index)
	if i == unknownNumber {
		return unknownNumber
	}
	return s.word + i%places
}

func (now *machineState) value(o operand) int {
	if o.register == unknownNumber {
		return o.n
	}
	if now.regs[o.register] == unknownNumber {
		return unknownNumber
	}
	return int(now.regs[o.register]) + o.n
}

// numberOf returns the number of a name. A name gets the next number when numberOf is first called
// with it.
func numberOf(names map[string]int, name string) int {
	n, ok := names[name]
	if !ok {
		n = len(names)
		names[name] = n
	}
	return n
}

// An exchange is what several threads do with the same words.
type exchange struct {
	name    string
	start   map[string]int8 // words that are not 0 at first
	threads []string
	// judge is called when a thread has performed its program. It returns whether the thread
	// accepts what it loaded. If the thread accepts what it should refuse, judge also returns the
	// fault.
	judge func(thread int, regs func(string) int) (accepted bool, fault string)
}

// run explores all executions. If one of them has a fault, run stops, and the machine that it
// returns contains the fault.
func (e *exchange) run(programs [][]string) (m *machine) {
	m = &machine{words: map[string]int{}, regs: map[string]int{}, seen: map[machineState]bool{},
		judge: e.judge}
	var start machineState
	for i := range start.regs {
		start.regs[i] = unknownNumber
	}
	for i, p := range programs {
		m.threads = append(m.threads, m.compile(i, p))
	}
	for name, v := range e.start {
		start.words[numberOf(m.words, name)] = v
	}
	m.explore(start)
	return m
}

func (e *exchange) programs() (programs [][]string) {
	for _, text := range e.threads {
		programs = append(programs, programLines(text))
	}
	return programs
}

// weakerForms gives, for each operation, the same operation without its order.
var weakerForms = map[string]string{"look": "load", "await": "wait", "publish": "store",
	"fence":   "",
	"reserve": "take"}

// forEachWeakening makes the versions of the programs in which one operation of one thread has lost
// its order (see weakerForms), and calls f with each version. Lines that differ only in their
// numbers are one operation: all of them lose their order together. needed is false if the program
// marks the operation with "?".
func (e *exchange) forEachWeakening(f func(rule string, needed bool, programs [][]string)) {
	numbers := regexp.MustCompile("[0-9]+")
	rule := func(line string) string { return numbers.ReplaceAllString(line, "") }
	for t, p := range e.programs() {
		done := map[string]bool{}
		for _, line := range p {
			op, _, _ := strings.Cut(line, " ")
			plain, ok := weakerForms[strings.TrimSuffix(op, "?")]
			if !ok || done[rule(line)] {
				continue
			}
			done[rule(line)] = true
			programs := e.programs()
			programs[t] = nil
			for _, other := range p {
				if rule(other) == rule(line) {
					other = strings.TrimSpace(strings.Replace(other, op, plain, 1))
				}
				if other != "" {
					programs[t] = append(programs[t], other)
				}
			}
			f(fmt.Sprintf("thread %d: %s", t, line), !strings.HasSuffix(op, "?"), programs)
		}
	}
}

// asInGo returns the programs with only the order that package ring has on arm64. Each access to
// the mapping is atomic, so it publishes or looks. The only fences are those after the kernel's
// loads.
func (e *exchange) asInGo() (programs [][]string) {
	inGo := strings.NewReplacer("load ", "look ", "store ", "publish ", "?", "").Replace
	for _, p := range e.programs() {
		kernel := strings.Contains(e.threads[len(programs)], "pread ") ||
			strings.Contains(e.threads[len(programs)], "wait lock")
		var q []string
		for _, line := range p {
			if line = inGo(line); line != "fence" || kernel {
				q = append(q, line)
			}
		}
		programs = append(programs, q)
	}
	return programs
}

func TestOrder(t *testing.T) {
	for _, e := range ringExchanges {
		t.Run(e.name, func(t *testing.T) {
			m := e.run(e.programs())
			t.Logf("%d states", len(m.seen))
			if m.fault != "" {
				t.Errorf("FORMAT.md: %s", m.fault)
			}
			for i, text := range e.threads {
				if strings.Contains(text, "->") && !strings.Contains(text, "reserve") &&
					!m.accepted[i] {
					t.Errorf("thread %d takes nothing", i)
				}
			}
			if m := e.run(e.asInGo()); m.fault != "" {
				t.Errorf("package ring: %s", m.fault)
			}
			e.forEachWeakening(func(rule string, needed bool, programs [][]string) {
				switch m := e.run(programs); {
				case needed && m.fault == "":
					t.Errorf("%s: the order is not needed", rule)
				case !needed && m.fault != "":
					t.Errorf("%s: the order is needed: %s", rule, m.fault)
				}
			})
		})
	}
}
