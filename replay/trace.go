package replay

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/replay/clock"
)

// ErrTrace is returned for a trace of another program that cannot be read.
var ErrTrace = errors.New("bad trace")

// maxTrace is the largest number of events in a trace of another program. It is small, because all
// pairs are compared.
const maxTrace = 4000

// traceLine is a line as the thesis on replay clocks prints it (see package clock). A program with
// package clock can write such lines.
var traceLine = regexp.MustCompile(`^\[?\(EventID=(\d+), EventType=(SEND|RECV|LOCAL), ` +
	`EventTime=\[\(NodeId=([^,]+), HLC=(\d+), Offsets=\[([-0-9, ]*)\], Counters=(\d+)\)\], ` +
	`Sender=([^,]+), Receiver=([^)]+)\)\]?$`)

// ReadTrace reads lines of the form that the thesis on replay clocks prints (see package clock):
// events with stamps of replay clocks. An absent offset is written as −epsilon. ReadTrace skips
// lines of other forms, such as a question to the user. But a line that contains "EventID" must
// have this form. The error wraps ErrTrace or ErrCycle.
func ReadTrace(from io.Reader) (*History, error) {
	type row struct {
		stamp   clock.Stamp
		offsets []int64
		sum     uint64
	}
	var rows []row
	h := &History{}
	sent := map[uint64]int{}
	var epsilon, largest int64
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if !strings.Contains(text, "EventID") {
			continue
		}
		m := traceLine.FindStringSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("read trace: line %d: %.80q is not of the form [(EventID=…, "+
				"EventType=…, EventTime=[(NodeId=…)], Sender=…, Receiver=…)]: %w", n, text,
				ErrTrace)
		}
		if len(rows) == maxTrace {
			return nil, fmt.Errorf("read trace: more than %d events: %w", maxTrace, ErrTrace)
		}
		id, err1 := strconv.ParseUint(m[1], 10, 64)
		greatest, err2 := strconv.ParseInt(m[4], 10, 62)
		sum, err3 := strconv.ParseUint(m[6], 10, 64)
		r := row{stamp: clock.NewStamp(greatest, nil), sum: sum}
		err := errors.Join(err1, err2, err3)
		for _, o := range strings.Split(m[5], ",") {
			off, err4 := strconv.ParseInt(strings.TrimSpace(o), 10, 62)
			err = errors.Join(err, err4)
			r.offsets = append(r.offsets, off)
			epsilon, largest = max(epsilon, -off), max(largest, off)
		}
		if err != nil || len(rows) > 0 && len(r.offsets) != len(rows[0].offsets) {
			return nil, fmt.Errorf("read trace: line %d: numbers out of range, or another number "+
				"of offsets than before: %w", n, ErrTrace)
		}
		e := h.event(m[3], strings.ToLower(m[2]), id)
		if m[2] == "SEND" {
			sent[id] = len(h.Events) - 1
		}
		if m[2] == "RECV" {
			s, ok := sent[id]
			if !ok {
				return nil, fmt.Errorf("read trace: line %d: message %d is received, and no line "+
					"before says that it was sent: %w", n, id, ErrTrace)
			}
			h.Messages = append(h.Messages, [2]int{s, len(h.Events) - 1})
		}
		e.Lo_cycles, e.Hi_cycles = uint64(greatest), uint64(greatest)
		rows = append(rows, r)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("read trace: no events: %w", ErrTrace)
	}
	if epsilon == 0 {
		epsilon = largest + 1
	}
	e := clock.Uniform(epsilon)
	for i := range rows {
		r := &rows[i]
		var held []clock.Known
		for p, off := range r.offsets {
			if off < 0 {
				off = epsilon
			}
			k := clock.Known{Process: uint32(p), Epoch: r.stamp.Max - off}
			if p == 0 {
				k.Counter = r.sum // only the sum is known; it orders events as one counter does
			}
			if off < epsilon || k.Counter > 0 {
				held = append(held, k)
			}
		}
		if !slices.Contains(r.offsets, 0) {
			return nil, fmt.Errorf("read trace: event %d: no offset is 0, so no clock shows "+
				"its HLC: %w", i+1, ErrTrace)
		}
		r.stamp = clock.NewStamp(r.stamp.Max, held)
	}
	return h, h.close(func(i, j int) bool {
		return clock.Compare(&rows[i].stamp, &rows[j].stamp, e) == clock.Before
	})
}

// event adds an event to a history while a trace is read.
func (h *History) event(node, what string, id uint64) *Event {
	at := slices.Index(h.Nodes, node)
	if at < 0 {
		at = len(h.Nodes)
		h.Nodes = append(h.Nodes, node)
	}
	of := slices.IndexFunc(h.Channels, func(c Channel) bool {
		return c.Node == at && c.Name == what
	})
	if of < 0 {
		of = len(h.Channels)
		h.Channels = append(h.Channels, Channel{Name: what, Actor: what, Point: what, Node: at})
	}
	index := uint64(0)
	for i := range h.Events {
		if h.Events[i].Node == uint32(at) {
			index++
		}
	}
	h.Events = append(h.Events, Event{Node: uint32(at), Channel: uint32(of), ID: id, Index: index})
	return &h.Events[len(h.Events)-1]
}

// close gives a history the smallest order that includes the given order, the messages, and the
// order of each node. Then it lists the events in a sequence that agrees with this smallest order.
func (h *History) close(before func(i, j int) bool) error {
	n := len(h.Events)
	direct := make([]bits, n) // the events before each event
	for j := range n {
		direct[j] = newBits(n)
		for i := range n {
			if i != j && (h.Events[i].Node == h.Events[j].Node && i < j || before(i, j)) {
				direct[j].set(i)
			}
		}
	}
	for _, m := range h.Messages {
		direct[m[1]].set(m[0])
	}
	all := make([]bits, n)
	state := make([]uint8, n) // 1: the events before it are being visited, 2: done
	var order []int
	var visit func(j int) error
	visit = func(j int) error {
		if state[j] != 0 {
			if state[j] == 1 {
				e := &h.Events[j]
				return fmt.Errorf("read trace: event %d, %s %d on %s, is before itself: %w", j+1,
					h.Channels[e.Channel].Name, e.ID, h.Nodes[e.Node], ErrCycle)
			}
			return nil
		}
		state[j] = 1
		closed := newBits(n)
		for i := range n {
			if !direct[j].has(i) || closed.has(i) {
				continue
			}
			if err := visit(i); err != nil {
				return err
			}
			closed.set(i)
			closed.add(all[i])
		}
		all[j], state[j] = closed, 2
		order = append(order, j)
		return nil
	}
	for j := range n {
		if err := visit(j); err != nil {
			return err
		}
	}
	number := make([]int, n) // the new number of each event
	events := make([]Event, n)
	for k, i := range order {
		number[i], events[k] = k, h.Events[i]
	}
	for i := range h.Messages {
		m := &h.Messages[i]
		m[0], m[1] = number[m[0]], number[m[1]]
	}
	h.Events = events
	h.before = func(i, j int) bool { return all[order[j]].has(order[i]) }
	return nil
}

// bits is a set of numbers.
type bits []uint64

func newBits(n int) bits      { return make(bits, (n+63)/64) }
func (b bits) set(i int)      { b[i/64] |= 1 << (i % 64) }
func (b bits) has(i int) bool { return b[i/64]>>(i%64)&1 == 1 }
func (b bits) add(others bits) {
	for i, o := range others {
		b[i] |= o
	}
}

// Stamps returns a replay clock's stamp for each event of a history. epoch_cycles is the length of
// an epoch, in cycles of the reference. Epochs are counted from the first event, because a
// counter's reading may be too large for a stamp. All processes have the same epsilon, so the
// stamps order more pairs of events than the history does.
func (h *History) Stamps(epsilon_cycles, epoch_cycles uint64) ([]clock.Stamp, *clock.Epsilons) {
	epoch_cycles = max(epoch_cycles, 1)
	e := clock.Uniform(int64((epsilon_cycles + epoch_cycles - 1) / epoch_cycles))
	clocks := make([]*clock.Clock, len(h.Nodes))
	for n := range clocks {
		clocks[n] = clock.New(n, e)
	}
	received := map[int][]int{}
	for _, m := range h.Messages {
		received[m[1]] = append(received[m[1]], m[0])
	}
	zero := ^uint64(0)
	for i := range h.Events {
		zero = min(zero, h.Events[i].Lo_cycles)
	}
	stamps := make([]clock.Stamp, len(h.Events))
	for i := range h.Events {
		f := &h.Events[i]
		epoch := int64((f.Lo_cycles - zero + (f.Hi_cycles-f.Lo_cycles)/2) / epoch_cycles)
		if from := received[i]; len(from) > 0 {
			for _, s := range from {
				clocks[f.Node].Receive(epoch, &stamps[s])
			}
		} else {
			clocks[f.Node].Local(epoch)
		}
		stamps[i].Copy(clocks[f.Node].Stamp())
	}
	return stamps, e
}

// Forced counts the free pairs of a history. It also counts how many of these pairs are forced into
// an order by replay clocks with one epsilon.
func (h *History) Forced(epsilon_cycles, epoch_cycles uint64) (free, forced uint64) {
	stamps, e := h.Stamps(epsilon_cycles, epoch_cycles)
	o := h.Orders()
	for j := range h.Events {
		for l, events := range o.lanes {
			if l == o.lane[j] {
				continue
			}
			for _, i := range events[o.need[j][l]:] {
				if i > j {
					break // the other event counts this pair
				}
				free++
				if clock.Compare(&stamps[i], &stamps[j], e) != clock.Concurrent {
					forced++
				}
			}
		}
	}
	return free, forced
}

// WriteTrace writes a history in the form that ReadTrace reads.
func (h *History) WriteTrace(to io.Writer, epsilon_cycles, epoch_cycles uint64) error {
	stamps, e := h.Stamps(epsilon_cycles, epoch_cycles)
	w := bufio.NewWriter(to)
	peer, kind := make([]int, len(h.Events)), make([]string, len(h.Events))
	message := make([]int, len(h.Events))
	for i := range h.Events {
		peer[i], kind[i], message[i] = int(h.Events[i].Node), "LOCAL", i+1
	}
	for _, m := range h.Messages {
		peer[m[0]], kind[m[0]] = int(h.Events[m[1]].Node), "SEND"
	}
	for _, m := range h.Messages {
		// A line has only one type. An event that both receives and sends is written as one that
		// sends. Its EventID is its own number, so that the message that it sends is not taken for
		// the message of another event. Its stamp shows what it received.
		if s, r := m[0], m[1]; kind[r] != "SEND" {
			peer[r], kind[r], message[r] = int(h.Events[s].Node), "RECV", s+1
		}
	}
	for i := range h.Events {
		f, s := &h.Events[i], &stamps[i]
		var offsets []string
		sum := uint64(0)
		for n := range h.Nodes {
			off := -e.Largest()
			for _, k := range s.Held() {
				if int(k.Process) == n && s.Max-k.Epoch < e.Largest() {
					off = s.Max - k.Epoch
				}
			}
			offsets = append(offsets, strconv.FormatInt(off, 10))
		}
		for _, k := range s.Held() {
			sum += k.Counter
		}
		fmt.Fprintf(w, "[(EventID=%d, EventType=%s, EventTime=[(NodeId=%s, HLC=%d, Offsets=[%s], "+
			"Counters=%d)], Sender=%s, Receiver=%s)]\n", message[i], kind[i], h.Nodes[f.Node],
			s.Max, strings.Join(offsets, ", "), sum, h.Nodes[f.Node], h.Nodes[peer[i]])
	}
	return w.Flush()
}
