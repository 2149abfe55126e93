package main

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/internal/truth"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// receivers finds, in the truth, the service that received the last byte of each message between
// services. Over TCP, the position in the stream shows this. Over UDP and UNIX sockets, the
// request's number shows it, because each number is sent only once.
func receivers(all []*message) map[*message]*message {
	received := map[string][]*message{} // by the sender's socket
	twoWay := map[string]bool{}         // sockets on which something was sent
	for _, m := range all {
		if m.sent {
			twoWay[m.socket] = true
		} else if other := otherEnd(m.socket); other != "" {
			received[other] = append(received[other], m)
		}
	}
	told := map[string]*message{} // by protocol and request
	for _, m := range all {
		protocol, _, _ := strings.Cut(m.socket, " ")
		if m.sent || twoWay[m.socket] || protocol == "tcp" {
			continue
		}
		for request := range strings.SplitSeq(m.request, ",") {
			told[protocol+" "+request] = m
		}
	}
	to := map[*message]*message{}
	for _, m := range all {
		protocol, _, _ := strings.Cut(m.socket, " ")
		var r *message
		switch {
		case !m.sent:
		case protocol == "tcp":
			others, last := received[m.socket], m.offset+uint64(m.bytes)-1
			at := sort.Search(len(others), func(i int) bool {
				return others[i].offset+uint64(others[i].bytes) > last
			})
			if at < len(others) {
				r = others[at]
			}
		case protocol == "udp" || m.service == "epoll":
			r = told[protocol+" "+m.request]
		}
		if r != nil {
			to[m] = r
		}
	}
	return to
}

// matchedCount says how many messages of one protocol, sent between services, were matched.
type matchedCount struct {
	True, Right, Wrong int
}

// transferErrors says how the computed transfer times of all matched messages compare with the
// truth.
type transferErrors struct {
	Known, Between int // Between: transfers between nodes
	Outside        int // transfers that do not contain the truth: must be 0
	widths_cycles  []int64
	faults         []string
}

// holdMatched compares the matches that were found in the run with the truth. The map with the name
// "is" gives, for each captured message, the same message in the truth.
func (t *testbed) holdMatched(run *runs.Directory, all []*message, is map[captureKey]*message,
	known *truth.Counters) (err error) {
	t.matched = map[string]*matchedCount{}
	of := func(m *message) *matchedCount {
		protocol, _, _ := strings.Cut(m.socket, " ")
		if t.matched[protocol] == nil {
			t.matched[protocol] = &matchedCount{}
		}
		return t.matched[protocol]
	}
	to := receivers(all)
	for m := range to {
		if m.after >= t.began_ns {
			of(m).True++
		}
	}
	reference := run.Run.Nodes[0].Name
	t.answer, err = messages.Of(run, messages.Options{
		Reference: reference,
		Each: func(m *messages.Timed) error {
			if m.Unknown == nil {
				t.transfers.compareTransfer(m.Match, m.Transfer, reference, known)
			}
			sent := is[captureKey{side{socketOf(m.Send.Connection), true}, m.Send.Lo_cycles}]
			got := is[captureKey{side{socketOf(m.Receive.Connection), false}, m.Receive.Lo_cycles}]
			switch {
			case sent == nil || to[sent] == nil: // a program without a truth received it
			case to[sent] == got:
				of(sent).Right++
			default:
				of(sent).Wrong++
				t.faults = append(t.faults, fmt.Sprintf("%+v was received as %+v, and not as %+v",
					*sent, *to[sent], got))
			}
			return nil
		},
	})
	return err
}

// compareTransfer compares the computed time of a transfer with the truth. The truth is the time
// between the same two counter readings, in cycles of the reference node's true counter.
func (t *transferErrors) compareTransfer(m messages.Match, d tscratio.Duration, reference string,
	known *truth.Counters) {
	t.Known++
	if m.From.Node != m.To.Node {
		t.Between++
		t.widths_cycles = append(t.widths_cycles, d.Hi-d.Lo)
	}
	unknown := false
	read := func(c messages.Call, cycles uint64) tscratio.Interval {
		i, ok := known.Truth(c.Log.Node, cycles, reference)
		if !ok { // a counter that is faster than the machine's does not show every reading
			before, first := known.Truth(c.Log.Node, cycles-1, reference)
			after, last := known.Truth(c.Log.Node, cycles+1, reference)
			i, ok = tscratio.Interval{Lo: before.Lo, Hi: after.Hi}, first && last
		}
		unknown = unknown || !ok
		return i
	}
	least := int64(read(m.Receive, m.Receive.Lo_cycles).Hi - read(m.Send, m.Send.Hi_cycles).Lo)
	most := int64(read(m.Receive, m.Receive.Hi_cycles).Lo - read(m.Send, m.Send.Lo_cycles).Hi)
	if unknown || d.Lo > least || d.Hi < most {
		t.Outside++
		t.faults = append(t.faults, fmt.Sprintf("transfer from %s to %s: [%d, %d] cycles, the "+
			"truth is [%d, %d], not known: %t: %+v", m.From.Node, m.To.Node, d.Lo, d.Hi, least,
			most, unknown, m))
	}
}

// medianHalfWidth returns the median half-width of transfers between nodes.
func (t *transferErrors) medianHalfWidth() int64 {
	if len(t.widths_cycles) == 0 {
		return 0
	}
	slices.Sort(t.widths_cycles)
	return t.widths_cycles[len(t.widths_cycles)/2] / 2
}
