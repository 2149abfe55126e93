package replay

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// shivizClock is the first line of an event in ShiViz' default format. The next line describes the
// event.
var shivizClock = regexp.MustCompile(`^(\S+) (\{.*\})$`)

// ReadShiViz reads a log in the default format of ShiViz: for each event a line with its host and
// its vector clock, and a line that describes it. Vector clocks know no time, so only causality
// orders the events. The error wraps ErrTrace or ErrCycle.
func ReadShiViz(from io.Reader) (*History, error) {
	h := &History{}
	var clocks []map[string]uint64
	at := map[string]map[uint64]int{} // events of each host, by the host's own count
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" {
			continue
		}
		m := shivizClock.FindStringSubmatch(text)
		clock := map[string]uint64{}
		if m == nil || json.Unmarshal([]byte(m[2]), &clock) != nil {
			return nil, fmt.Errorf("read ShiViz log: line %d: %.80q is not of the form HOST "+
				"{\"HOST\":1}: %w", n, text, ErrTrace)
		}
		if n++; !lines.Scan() {
			return nil, fmt.Errorf("read ShiViz log: line %d: the event has no description: %w", n,
				ErrTrace)
		}
		if len(clocks) == maxTrace {
			return nil, fmt.Errorf("read ShiViz log: more than %d events: %w", maxTrace, ErrTrace)
		}
		host, own := m[1], clock[m[1]]
		if at[host] == nil {
			at[host] = map[uint64]int{}
		}
		if _, twice := at[host][own]; twice || own == 0 {
			return nil, fmt.Errorf("read ShiViz log: line %d: the own count of host %q is %d for "+
				"two events, or 0: %w", n-1, host, own, ErrTrace)
		}
		at[host][own] = len(clocks)
		h.event(host, strings.TrimSpace(lines.Text()), own)
		clocks = append(clocks, clock)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read ShiViz log: %w", err)
	}
	if len(clocks) == 0 {
		return nil, fmt.Errorf("read ShiViz log: no events: %w", ErrTrace)
	}
	for i, clock := range clocks {
		host := h.Nodes[h.Events[i].Node]
		for other, count := range clock {
			if count == 0 || other == host {
				continue
			}
			if _, known := at[other][count]; !known {
				return nil, fmt.Errorf("read ShiViz log: event %d of host %q has seen event %d of "+
					"host %q, which is not in the log: %w", clock[host], host, count, other,
					ErrTrace)
			}
			// This host's clock shows this event of the other host for the first time. So a message
			// brought the news of the event.
			if last, ok := at[host][clock[host]-1]; !ok || clocks[last][other] < count {
				h.Messages = append(h.Messages, [2]int{at[other][count], i})
			}
		}
	}
	h.Messages = h.directMessages(clocks)
	return h, h.close(func(i, j int) bool {
		host := h.Nodes[h.Events[i].Node]
		return clocks[i][host] <= clocks[j][host]
	})
}

// directMessages returns the messages that no other message to the same event implies.
func (h *History) directMessages(clocks []map[string]uint64) (kept [][2]int) {
	for _, m := range h.Messages {
		host := h.Nodes[h.Events[m[0]].Node]
		if !slices.ContainsFunc(h.Messages, func(o [2]int) bool {
			return o[1] == m[1] && o[0] != m[0] && clocks[o[0]][host] >= clocks[m[0]][host]
		}) {
			kept = append(kept, m)
		}
	}
	return kept
}

// WriteShiViz writes a history in ShiViz' default format. It writes no times, only causality.
func (h *History) WriteShiViz(to io.Writer) error {
	w := bufio.NewWriter(to)
	received := map[int][]int{}
	for _, m := range h.Messages {
		received[m[1]] = append(received[m[1]], m[0])
	}
	vectors, last := make([][]uint64, len(h.Events)), make([][]uint64, len(h.Nodes))
	for i := range h.Events {
		e := &h.Events[i]
		v := make([]uint64, len(h.Nodes))
		copy(v, last[e.Node])
		v[e.Node]++
		for _, s := range received[i] {
			for n, known := range vectors[s] {
				v[n] = max(v[n], known)
			}
		}
		vectors[i], last[e.Node] = v, v
		named := map[string]uint64{}
		for n, known := range v {
			if known > 0 {
				named[shivizHost(h.Nodes[n])] = known
			}
		}
		text, err := json.Marshal(named) // sorted by host
		if err != nil {
			return fmt.Errorf("write ShiViz log: %w", err)
		}
		fmt.Fprintf(w, "%s %s\n%s %d\n", shivizHost(h.Nodes[e.Node]), text,
			h.Channels[e.Channel].Name, e.ID)
	}
	return w.Flush()
}

// shivizHost is a name without spaces.
func shivizHost(node string) string { return strings.ReplaceAll(node, " ", "_") }
