package export

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// traceMessages is the number of captured messages that a trace shows if the options name no
// number.
const traceMessages = 10_000

// eachCaptured calls a function for each captured message of a run, if both ends of the message are
// known. It does nothing if the flags choose a part of the run: the flags choose tuples, and say
// nothing about messages. eachCaptured has all messages of the run in memory, as package messages
// does.
func eachCaptured(dir *runs.Directory, o *analysis.Options, reference string,
	each func(*messages.Timed) error) (*messages.Answer, error) {
	if f := &o.Filter; len(f.Nodes)+len(f.Channels)+len(f.IDs) > 0 || f.To_cycles != 0 ||
		f.To_utc_ns != 0 {
		return nil, nil
	}
	return messages.Of(dir, messages.Options{
		Reference: reference, Wander: o.Wander, ThirdNodes: o.ThirdNodes, Each: each,
	})
}

// transfer is a captured message for which two things are known: how long the transfer took, and
// when the message was sent.
type transfer struct {
	messages.Timed
	at     tscratio.Interval // of the reference's counter: the call that sent began
	number uint64            // counts the captured messages
}

// transfers collects transfers, up to a limit: the slowest, or those that began first.
type transfers struct {
	most    int // 0: none is kept
	slowest bool
	kept    bestOf[*transfer]
	all     uint64 // captured messages of which both ends are known
	lacking uint64 // those of them whose transfer, or its place in time, is not known
}

// placeTransfer counts a captured message and makes a transfer of it. It returns nil if the
// transfer, or its place in time, is not known.
func (c *transfers) placeTransfer(m *messages.Timed) *transfer {
	c.all++
	at, err := m.Sent()
	if m.Unknown != nil || err != nil {
		c.lacking++
		return nil
	}
	return &transfer{*m, at, c.all}
}

func (c *transfers) add(m *messages.Timed) error {
	if t := c.placeTransfer(m); t != nil {
		c.kept.order = c.compareTransfers
		c.kept.add(t, c.most)
	}
	return nil
}

// compareTransfers compares two transfers. If there are too many, those that come last in this
// order are dropped.
func (c *transfers) compareTransfers(a, b *transfer) int {
	if c.slowest {
		return cmp.Or(cmp.Compare(b.Transfer.Lo, a.Transfer.Lo), cmp.Compare(a.number, b.number))
	}
	return cmp.Or(cmp.Compare(a.at.Mid(), b.at.Mid()), cmp.Compare(a.number, b.number))
}

// keptWords says in words which messages were kept.
func (c *transfers) keptWords() string {
	which := "first"
	if c.slowest {
		which = "slowest"
	}
	text := fmt.Sprintf("all %d captured messages of which both ends are known", c.all)
	if n := uint64(len(c.kept.all)); c.most > 0 && n < c.all-c.lacking {
		text = fmt.Sprintf("the %d %s of %d captured messages", n, which, c.all)
	}
	if c.lacking > 0 {
		text += fmt.Sprintf(", of which %d have no known transfer", c.lacking)
	}
	return text
}

// senderTrack and receiver are the tracks of the two programs.
func (m *transfer) senderTrack() trackKey { return programTrack(m.From) }
func (m *transfer) receiver() trackKey    { return programTrack(m.To) }

func programTrack(p *messages.Program) trackKey {
	return trackKey{p.Node, cmp.Or(p.Name, "unknown program")}
}

// describeMessage returns what a slice or a span says about a captured message.
func (m *transfer) describeMessage(r *analysis.Reference) []attribute {
	all := []attribute{
		text("kind", "message"), number("bytes", int64(m.Bytes)),
		number("lo_cycles", m.Transfer.Lo), number("hi_cycles", m.Transfer.Hi),
		number("bound_cycles", (m.Transfer.Hi-m.Transfer.Lo+1)/2),
		text("verdict", m.Transfer.Verdict.String()),
		text("from_node", m.From.Node), text("to_node", m.To.Node),
		text("from_program", m.From.Name), text("to_program", m.To.Name),
		number("from_thread", int64(m.Send.By.Number)),
		number("to_thread", int64(m.Receive.By.Number)),
		text("from_socket", strconv.FormatUint(m.Send.Cookie, 10)),
		text("to_socket", strconv.FormatUint(m.Receive.Cookie, 10)),
		text("from_lo_cycles", strconv.FormatUint(m.at.Lo, 10)),
		text("from_hi_cycles", strconv.FormatUint(m.at.Hi, 10)),
	}
	if c := m.Send.Connection; c.Local.IsValid() {
		all = append(all, text("from_address", c.Local.String()),
			text("to_address", m.Receive.Connection.Local.String()))
	}
	part := func(name string, d tscratio.Duration) {
		all = append(all, number(name+"_lo_cycles", d.Lo), number(name+"_hi_cycles", d.Hi))
	}
	if p := &m.Parts; p.Arrived {
		part("network", p.Network)
		part("waited", p.Waited)
	}
	if p := &m.Parts; p.Divided {
		part("kernel", p.Kernel)
		part("program", p.Program)
	}
	if p := &m.Parts; p.Resent {
		part("resending", p.Resending)
	}
	if seconds := r.Seconds(m.length()); seconds != "" {
		all = append(all, text("seconds", seconds))
	}
	return all
}

func (m *transfer) length() analysis.Interval {
	return analysis.Interval{Lo_cycles: m.Transfer.Lo, Hi_cycles: m.Transfer.Hi}
}

// layMessage puts a captured message on the track of the pair of its two programs. A flow leads
// from the instant at which the message was sent to the instant at which it was received.
func (t *trace) layMessage(m *transfer, r *analysis.Reference) {
	since := int64(m.at.Mid() - t.zero)
	begin_ns := r.Length_ns(analysis.Interval{Lo_cycles: since, Hi_cycles: since})
	length_ns := max(r.Length_ns(m.length()), 0)
	from, to := m.senderTrack(), m.receiver()
	about := m.describeMessage(r)
	put := func(k trackKey, s *slice) { t.tracks[k] = append(t.tracks[k], s) }
	put(trackKey{name: from.node + " " + from.name + " → " + to.node + " " + to.name}, &slice{
		name: fmt.Sprintf("%d bytes", m.Bytes), begin_ns: begin_ns, length_ns: length_ns,
		about: about,
	})
	t.flows++
	put(from, &slice{name: "to " + to.name, begin_ns: begin_ns, event: true,
		flows: []uint64{t.flows}})
	put(to, &slice{name: "from " + from.name, begin_ns: begin_ns + length_ns, event: true,
		flows: []uint64{t.flows}})
}

// writeMessage writes a captured message as a trace of one span.
func (w *otlp) writeMessage(m *transfer) error {
	from, to := m.senderTrack(), m.receiver()
	trace := w.messageID(m)
	sum := sha256.Sum256([]byte(trace))
	s := &otlpSpan{
		TraceID: trace, SpanID: hex.EncodeToString(sum[:8]), Name: from.name + " → " + to.name,
		Kind: spanProducer,
	}
	w.placeSpan(s, m.at, m.length())
	for _, a := range append(m.describeMessage(&w.clock.Reference), w.boundAttribute(s, m.at)...) {
		s.Attributes = append(s.Attributes, a.otlp())
	}
	s.Attributes = append(s.Attributes, otlpText("peer.service", to.name))
	return w.addSpan(from, s)
}

// messageID names the trace of a captured message. A call of many bytes is several messages, which
// follow each other and may look alike. So the name depends on how many messages directly before
// this one look like it.
func (w *otlp) messageID(m *transfer) string {
	name := fmt.Sprintf("%s %d message %q %q %d %d %d %d", w.run.Name, w.run.Begun.Lo_ns,
		m.From.Node, m.Send.Log.Epoch, m.Send.Cookie, m.Send.By.Number, m.Send.Lo_cycles,
		m.Send.Position)
	if w.alike++; name != w.before {
		w.before, w.alike = name, 0
	}
	sum := sha256.Sum256(fmt.Append([]byte(name), " ", w.alike))
	return hex.EncodeToString(sum[:16])
}
