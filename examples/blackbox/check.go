package main

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
)

// A message describes a message that a service sent or received. The service wrote it down as one
// line.
type message struct {
	service       string
	n             int
	sent          bool
	socket        string // as in FORMAT.md
	request       string
	bytes         int
	before, after int64 // CLOCK_MONOTONIC in ns; before is 0 if it is not known
	causes        []int

	offset uint64 // number of earlier bytes in its direction of the connection

}

// readTruth reads what all services have written down, and computes the place of each message in
// the stream of bytes of its socket.
func readTruth(dir string) (all []*message, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.tsv"))
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		var messages []*message
		for lines := bufio.NewScanner(f); lines.Scan(); {
			m, err := parse(lines.Text())
			if err != nil {
				return nil, fmt.Errorf("read %q: %w", path, err)
			}
			m.service = strings.TrimSuffix(filepath.Base(path), ".tsv")
			messages = append(messages, m)
		}
		offsets := map[side]uint64{}
		for _, m := range messages {
			m.offset = offsets[m.side()]
			offsets[m.side()] += uint64(m.bytes)
		}
		all = append(all, messages...)
	}
	return all, nil
}

func parse(line string) (*message, error) {
	words := strings.Split(line, "\t")
	if len(words) != 8 {
		return nil, fmt.Errorf("line %q: %d fields, want 8", line, len(words))
	}
	m := &message{sent: words[1] == "S", socket: words[2], request: words[3]}
	var err error
	number := func(text string) (n int64) {
		n, e := strconv.ParseInt(text, 10, 64)
		err = cmp.Or(err, e)
		return n
	}
	m.n, m.bytes = int(number(words[0])), int(number(words[4]))
	m.before, m.after = number(words[5]), number(words[6])
	for cause := range strings.SplitSeq(words[7], ",") {
		if cause != "" {
			m.causes = append(m.causes, int(number(cause)))
		}
	}
	return m, err
}

// A side is one direction of one socket.
type side struct {
	socket string
	sent   bool
}

func (m *message) side() side { return side{m.socket, m.sent} }

// captureKey identifies a captured message by its socket, its direction, and the counter when its
// call began.
type captureKey struct {
	side
	began_cycles uint64
}

// socketOf returns the name of a captured socket, in the form in which services write it down.
func socketOf(c *blackbox.Connection) string {
	switch {
	case c.Family == blackbox.UNIX:
		return fmt.Sprintf("unix %d", c.Cookie)
	case c.Protocol == blackbox.UDP:
		return fmt.Sprintf("udp %s %s", c.Local, c.Remote)
	}
	return fmt.Sprintf("tcp %s %s", c.Local, c.Remote)
}

// otherEnd returns the name of the other end of a TCP or UDP socket.
func otherEnd(socket string) string {
	words := strings.Fields(socket)
	if len(words) != 3 {
		return ""
	}
	return words[0] + " " + words[2] + " " + words[1]
}

// capturedCount counts messages of one protocol: those that services wrote down, and those of them
// that were captured.
type capturedCount struct {
	True, Captured int // messages of the services, and how many of them are in the log
	Nobody         int // messages in the log that no service sent or received
	Early, Late    int // stamps that are earlier or later than the service says: must be 0
}

// holdCaptured compares the captured messages with the truth. It leaves out messages that were sent
// or received before the capture began.
func holdCaptured(truth []*message, s *logSplitter, began_ns int64, ns func(uint64) int64) (
	map[string]*capturedCount, []string) {
	wanted, seen := map[side][]*message{}, map[side][]blackbox.Message{}
	for _, m := range truth {
		wanted[m.side()] = append(wanted[m.side()], m)
	}
	for _, m := range s.allMessages {
		c := s.sockets[m.Connection]
		k := side{socketOf(&c), m.Kind == blackbox.Sent}
		seen[k] = append(seen[k], m)
	}
	for _, messages := range seen {
		// Sort by position, or by time if there is no position. In this testbed, no port is used
		// again.
		slices.SortStableFunc(messages, func(a, b blackbox.Message) int {
			return cmp.Or(cmp.Compare(a.Position, b.Position),
				cmp.Compare(a.Ended_cycles, b.Ended_cycles))
		})
	}
	counts, faults := map[string]*capturedCount{}, []string{}
	s.known, s.captured = map[captureKey]*message{}, map[*message]blackbox.Message{}
	s.sides = seen
	for k, messages := range wanted {
		protocol, _, _ := strings.Cut(k.socket, " ")
		c := counts[protocol]
		if c == nil {
			c = &capturedCount{}
			counts[protocol] = c
		}
		messages = slices.DeleteFunc(messages, func(m *message) bool { return m.after < began_ns })
		got := seen[k]
		var base uint64 // the position of the first byte, which TCP chose
		if len(messages) > 0 && len(got) > 0 {
			base = got[0].Position - messages[0].offset
		}
		for _, m := range messages {
			c.True++
			if len(got) == 0 || int(got[0].Bytes) != m.bytes ||
				protocol == "tcp" && got[0].Position != (base+m.offset)&blackbox.MaxPosition {
				faults = append(faults, fmt.Sprintf("not captured: %+v, but %+v", *m,
					got[:min(1, len(got))]))
				continue
			}
			c.Captured++
			s.known[captureKey{k, got[0].Began_cycles}], s.captured[m] = m, got[0]
			if fault := c.compareStamps(m, got[0], ns); fault != "" {
				faults = append(faults, fault)
			}
			got = got[1:]
		}
		c.Nobody += len(got)
		if len(got) > 0 {
			faults = append(faults, fmt.Sprintf("nobody made: %v %+v", k, got[0]))
		}
	}
	return counts, faults
}

// reading_ns is the largest error, in ns, of a counter reading that was converted to
// CLOCK_MONOTONIC.
const reading_ns = 2000

// compareStamps compares the stamps of a captured message with the times that the service wrote
// down for the same message. If they contradict each other, it says how.
func (c *capturedCount) compareStamps(m *message, got blackbox.Message,
	ns func(uint64) int64) string {
	lo, hi := ns(got.Began_cycles), ns(got.Ended_cycles)
	if got.Early {
		hi = ns(got.Began_cycles + got.Width_cycles)
	}
	switch {
	case hi < m.before-reading_ns:
		c.Early++
	case lo > m.after+reading_ns:
		c.Late++
	default:
		return ""
	}
	return fmt.Sprintf("%+v was captured at [%d, %d] ns: %+v", *m, lo, hi, got)
}

// protocols returns the keys in order.
func protocols(counts map[string]*capturedCount) []string {
	return slices.Sorted(maps.Keys(
		counts))
}
