package control

import (
	"fmt"
	"hash/crc32"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// These limits restrict the content of a message, so that one peer cannot use too much of another
// peer's time and memory.
const (
	MaxMessageBytes = 4 << 20 // bytes of all frames of a message together
	MaxChunkBytes   = 1 << 20
	MaxNameBytes    = 128
	MaxTextBytes    = 4096
	MaxExchanges    = 10_000 // exchanges of a train
	MaxTrains       = 10_000 // trains of a batch
	MaxTargets      = 5_000
	MaxRules        = 10_000 // rules of a handler table
	MaxKeyBytes     = 64
	MaxNeighbours   = 64 // nodes in a Neighbours, contacts in a Graph
	MaxBlamed       = 8  // how often a Neighbours blames a node
	SecretBytes     = 32 // bytes of a ProbeSecret

	maxSecrets    = 4
	MaxFactsBytes = 64 << 10 // facts of a node; a machine with a thousand cores sends 15 kB
	MaxLineBytes  = 256      // a name, or a description in one line

	maxTime = 24 * time.Hour
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checkName checks the name of a node or a run. Such a name is read by people, and becomes a file
// name.
func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is missing", what)
	case len(name) > MaxNameBytes:
		return fmt.Errorf("%s has %d bytes, more than %d", what, len(name), MaxNameBytes)
	case name[0] == '.' || name[0] == '-':
		return fmt.Errorf("%s %q begins with %q", what, name, name[:1])
	}
	for _, r := range name {
		if r == '/' || r == '\\' || r == utf8.RuneError ||
			unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return fmt.Errorf("%s %q holds %q", what, name, r)
		}
	}
	return nil
}

// CheckName returns an error if the name is not valid for a node or a run.
func CheckName(name string) error { return checkName("name", name) }

func checkText(what, text string) error {
	if len(text) > MaxTextBytes {
		return fmt.Errorf("%s has %d bytes, more than %d", what, len(text), MaxTextBytes)
	}
	return nil
}

// checkLine checks a text that is shown or stored as one line.
func checkLine(what, text string) error {
	if len(text) > MaxLineBytes {
		return fmt.Errorf("%s has %d bytes, more than %d", what, len(text), MaxLineBytes)
	}
	for _, r := range text {
		if unicode.IsControl(r) {
			return fmt.Errorf("%s %q holds %q", what, text, r)
		}
	}
	return nil
}

// Cut shortens an error's text so that it fits into a message, and replaces bytes that are not
// UTF-8. A peer refuses a whole message if one text in it is too long or not UTF-8.
func Cut(text string) string { return CutTo(text, MaxTextBytes) }

// CutTo does what Cut does, with a given limit in bytes instead of MaxTextBytes.
func CutTo(text string, bytes int) string {
	text = strings.ToValidUTF8(text, "?")
	return strings.ToValidUTF8(text[:min(len(text), bytes)], "")
}

func checkTime(what string, ns int64) error {
	if ns < 0 || ns > int64(maxTime) {
		return fmt.Errorf("%s is %d, not between 0 and a day", what, ns)
	}
	return nil
}

func checkPath(p string) error {
	if p == "" || len(p) > MaxTextBytes ||
		!utf8.ValidString(p) || strings.ContainsAny(p, "\\\x00") ||
		path.IsAbs(p) || path.Clean(p) != p ||
		p == "." || p == ".." || strings.HasPrefix(p, "../") {
		return fmt.Errorf("path %q is not a clean path inside a run", p)
	}
	return nil
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *Hello) check() error {
	return first(checkName("name", m.Name), checkLine("software", m.Software))
}

func (m *Challenge) check() error { return checkText("nonce", m.Nonce) }

func (m *Register) check() error {
	if err := first(
		checkText("nonce", m.Nonce), checkName("name", m.Name), checkName("instance", m.Instance),
		checkLine("epoch", m.Epoch), checkLine("machine", m.Machine),
		checkLine("software", m.Software), checkRate(m.Nominal_hz),
	); err != nil {
		return err
	}
	switch {
	case m.Epoch == "":
		return fmt.Errorf("epoch is missing")
	case m.Number < 0:
		return fmt.Errorf("number is %d, want 0 or more", m.Number)
	case m.Cores < 1 || m.Cores > 1<<16:
		return fmt.Errorf("%d cores, not 1 to %d", m.Cores, 1<<16)
	case len(m.Capabilities) > 64:
		return fmt.Errorf("%d capabilities, more than 64", len(m.Capabilities))
	case len(m.Facts) > MaxFactsBytes:
		return fmt.Errorf("facts of %d bytes, more than %d", len(m.Facts), MaxFactsBytes)
	}
	for _, c := range m.Capabilities {
		if err := checkName("capability", c); err != nil {
			return err
		}
	}
	if err := m.Frequency.check(); err != nil {
		return err
	}
	if m.OpenRun != "" {
		if err := checkName("open run", m.OpenRun); err != nil {
			return err
		}
	}
	if err := checkLine("graph", m.Graph); err != nil {
		return err
	}
	if m.ProbeAddress != "" {
		if err := checkAddress(m.ProbeAddress); err != nil {
			return err
		}
	}
	return nil
}

// Can reports whether the node has a capability. The capabilities are CanProbe and so on.
func (m *Register) Can(capability string) bool {
	return slices.Contains(m.Capabilities, capability)
}

func checkAddress(address string) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil || a.Port() == 0 || a.Addr().IsUnspecified() {
		return fmt.Errorf("probe address %q cannot receive packets: want address:port", address)
	}
	return nil
}

func checkRate(hz uint64) error {
	if hz < 1e6 || hz > 1e12 {
		return fmt.Errorf("nominal rate of %d Hz, not 1 MHz to 1 THz", hz)
	}
	return nil
}

func (m *Welcome) check() error {
	if m.Heartbeat_ns <= 0 || m.Dead_ns < m.Heartbeat_ns {
		return fmt.Errorf("heartbeat of %d ns, peer dead after %d ns", m.Heartbeat_ns, m.Dead_ns)
	}
	return first(checkText("server", m.Server), checkTime("heartbeat_ns", m.Heartbeat_ns),
		checkTime("dead_ns", m.Dead_ns))
}

func (m *Refusal) check() error {
	if m.Code == 0 {
		return fmt.Errorf("code is missing")
	}
	return checkText("text", m.Text)
}

func (*Ping) check() error          { return nil }
func (*Pong) check() error          { return nil }
func (m *Leave) check() error       { return checkText("why", m.Why) }
func (*Done) check() error          { return nil }
func (m *LoadRequest) check() error { return checkTime("over_ns", m.Over_ns) }

func (m *Load) check() error {
	if m.Busy_ppm < -1 || m.Busy_ppm > 1_000_000 {
		return fmt.Errorf("busy_ppm is %d, not -1 to 1000000", m.Busy_ppm)
	}
	if len(m.Unknown) > 64 {
		return fmt.Errorf("%d unknown things, more than 64", len(m.Unknown))
	}
	for _, u := range m.Unknown {
		if err := checkText("unknown", u); err != nil {
			return err
		}
	}
	return checkTime("over_ns", m.Over_ns)
}

func (t *Target) check() error {
	if len(t.Key) > MaxKeyBytes {
		return fmt.Errorf("key of %d bytes, more than %d", len(t.Key), MaxKeyBytes)
	}
	if err := checkRate(t.Nominal_hz); err != nil {
		return err
	}
	return first(checkName("peer", t.Peer), checkText("peer_epoch", t.PeerEpoch),
		checkAddress(t.Address))
}

func (m *Manner) check() error {
	switch {
	case m.Exchanges < 1 || m.Exchanges > MaxExchanges:
		return fmt.Errorf("%d exchanges, not 1 to %d", m.Exchanges, MaxExchanges)
	case m.Attempts < 1 || m.Attempts > 1000:
		return fmt.Errorf("%d attempts, not 1 to 1000", m.Attempts)
	case m.Timeout_ns < 1:
		return fmt.Errorf("timeout_ns is %d, want 1 or more", m.Timeout_ns)
	}
	return first(checkTime("timeout_ns", m.Timeout_ns), checkTime("spin_ns", m.Spin_ns))
}

func (m *Probe) check() error {
	if m.Trains < 1 || m.Trains > MaxTrains {
		return fmt.Errorf("%d trains, not 1 to %d", m.Trains, MaxTrains)
	}
	return first(m.Target.check(), m.Manner.check(), checkTime("gap_ns", m.Gap_ns),
		checkTime("limit_ns", m.Limit_ns))
}

func (m *Probing) check() error {
	if len(m.Targets) > MaxTargets {
		return fmt.Errorf("%d targets, more than %d", len(m.Targets), MaxTargets)
	}
	if len(m.Targets) == 0 && !m.Neighbours {
		return nil
	}
	for i := range m.Targets {
		if err := m.Targets[i].check(); err != nil {
			return err
		}
	}
	if m.Period_ns < 1 {
		return fmt.Errorf("period_ns is %d, want 1 or more", m.Period_ns)
	}
	return first(m.Manner.check(), checkTime("period_ns", m.Period_ns))
}

func (m *Trains) check() error {
	return first(checkName("peer", m.Peer), checkText("peer_epoch", m.PeerEpoch),
		checkText("epoch", m.Epoch), checkText("error", m.Error),
		checkText("shared_clock", m.SharedClock), m.checkMeetings())
}

// maxMeetings is the largest number of Meetings that a report may contain for one train: one at the
// train's beginning, and one at its end.
const maxMeetings = 2

func (m *Trains) checkMeetings() error {
	counts := make([]int, len(m.Trains))
	for i, x := range m.Meetings {
		switch {
		case x.Train < 0 || x.Train >= len(counts):
			return fmt.Errorf("meeting %d belongs to train %d of %d", i, x.Train, len(counts))
		case x.OwnHi < x.OwnLo || x.PeerHi < x.PeerLo:
			return fmt.Errorf("meeting %d ends before it begins", i)
		}
		if counts[x.Train]++; counts[x.Train] > maxMeetings {
			return fmt.Errorf("train %d has more than %d meetings", x.Train, maxMeetings)
		}
	}
	return nil
}

func (*Ack) check() error { return nil }
func (m *Run) check() error {
	if len(m.Collectors) > MaxNeighbours {
		return fmt.Errorf("%d collectors, more than %d", len(m.Collectors), MaxNeighbours)
	}
	return checkName("run", m.Name)
}
func (*Table) check() error { return nil }
func (m *TableState) check() error {
	if len(m.Matched) > MaxRules {
		return fmt.Errorf("matches of %d rules, more than %d", len(m.Matched), MaxRules)
	}
	for _, n := range m.Matched {
		if n < 0 || n > 1<<30 {
			return fmt.Errorf("a rule matched %d channels", n)
		}
	}
	return checkText("error", m.Error)
}
func (m *ListFiles) check() error { return checkName("run", m.Run) }
func (m *Snapshot) check() error {
	return first(checkText("channels", m.Channels), checkText("reason", m.Reason))
}
func (m *Ask) check() error           { return checkName("question", m.What) }
func (m *SnapshotState) check() error { return checkText("error", m.Error) }

func (f *Frequency) check() error {
	if f == nil {
		return nil
	}
	if f.Lo_millihz > f.Hi_millihz {
		return fmt.Errorf("frequency from %d to %d mHz", f.Lo_millihz, f.Hi_millihz)
	}
	lo, hi := f.Lo_millihz/1000, f.Hi_millihz/1000
	return first(checkRate(lo), checkRate(hi), checkLine("clock", f.Clock))
}

func (m *RunState) check() error {
	if err := m.Frequency.check(); err != nil {
		return err
	}
	if len(m.Missing) > 10_000 {
		return fmt.Errorf("%d missing things, more than 10000", len(m.Missing))
	}
	for _, s := range m.Missing {
		if err := checkText("missing", s); err != nil {
			return err
		}
	}
	return checkName("run", m.Name)
}

func (m *Files) check() error {
	for _, f := range m.Files {
		if f.Bytes < 0 {
			return fmt.Errorf("file %q of %d bytes", f.Path, f.Bytes)
		}
		if err := checkPath(f.Path); err != nil {
			return err
		}
	}
	return checkName("run", m.Run)
}

func (m *ReadFile) check() error {
	if m.Offset < 0 || m.Bytes < 1 || m.Bytes > MaxChunkBytes {
		return fmt.Errorf("%d bytes at offset %d, want 1 to %d bytes at 0 or more",
			m.Bytes, m.Offset, MaxChunkBytes)
	}
	return first(checkName("run", m.Run), checkPath(m.Path))
}

func (m *Chunk) check() error {
	if m.Offset < 0 || m.Size < 0 {
		return fmt.Errorf("chunk at %d of %d", m.Offset, m.Size)
	}
	return checkPath(m.Path)
}

func (m *ProbeSecrets) check() error {
	if n := len(m.Secrets); n < 1 || n > maxSecrets {
		return fmt.Errorf("%d secrets, not 1 to %d", n, maxSecrets)
	}
	for _, s := range m.Secrets {
		if s.Number == 0 || len(s.Bytes) != SecretBytes {
			return fmt.Errorf("secret %d of %d bytes: want a number and %d bytes",
				s.Number, len(s.Bytes), SecretBytes)
		}
	}
	return nil
}

func (m *Graph) check() error {
	switch {
	case m.Degree < 2 || m.Degree > MaxNeighbours/2:
		return fmt.Errorf("degree is %d, not 2 to %d", m.Degree, MaxNeighbours/2)
	case len(m.Issuers) < 1 || len(m.Issuers) > maxSecrets:
		return fmt.Errorf("%d issuers, not 1 to %d", len(m.Issuers), maxSecrets)
	case len(m.Contacts) > MaxNeighbours:
		return fmt.Errorf("%d contacts, more than %d", len(m.Contacts), MaxNeighbours)
	case len(m.Signature) > MaxKeyBytes:
		return fmt.Errorf("signature of %d bytes, more than %d", len(m.Signature), MaxKeyBytes)
	}
	for _, key := range m.Issuers {
		if len(key) > MaxKeyBytes {
			return fmt.Errorf("key of an issuer has %d bytes, more than %d", len(key), MaxKeyBytes)
		}
	}
	for _, c := range m.Contacts {
		if err := checkLine("contact", c); err != nil {
			return err
		}
	}
	return nil
}

func (m *Neighbours) check() error {
	if len(m.Names) > MaxNeighbours {
		return fmt.Errorf("%d neighbours, more than %d", len(m.Names), MaxNeighbours)
	}
	if len(m.Connected) > MaxNeighbours {
		return fmt.Errorf("%d connections, more than %d", len(m.Connected), MaxNeighbours)
	}
	if len(m.Blamed) > MaxNeighbours {
		return fmt.Errorf("%d blamed nodes, more than %d", len(m.Blamed), MaxNeighbours)
	}
	for _, n := range m.Names {
		if err := checkName("neighbour", n); err != nil {
			return err
		}
	}
	for _, b := range m.Blamed {
		if err := checkName("blamed node", b.Name); err != nil {
			return err
		}
		if b.Times < 1 || b.Times > MaxBlamed {
			return fmt.Errorf("node %q is blamed %d times, not 1 to %d", b.Name, b.Times, MaxBlamed)
		}
	}
	for _, a := range m.Connected {
		if _, err := netip.ParseAddr(a); err != nil {
			return fmt.Errorf("connection: %w", err)
		}
	}
	return nil
}

func (m *Answer) check() error {
	if len(m.Result) > MaxAnswerBytes {
		return fmt.Errorf("result of %d bytes, more than %d", len(m.Result), MaxAnswerBytes)
	}
	return nil
}
