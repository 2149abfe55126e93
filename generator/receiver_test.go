package generator

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// A listedSource delivers tuples with the listed ids, and then, if it has one, the message that
// ends the stream.
type listedSource struct {
	ids []uint64
	end *End
}

func (s *listedSource) Receive(b *Bucket, max int) error {
	b.Tuples, b.Ends, b.Malformed = b.Tuples[:0], b.Ends[:0], b.Malformed[:0]
	switch n := min(max, len(s.ids)); {
	case n > 0:
		for _, id := range s.ids[:n] {
			b.Tuples = append(b.Tuples, Tuple{id, []byte("x")})
		}
		s.ids = s.ids[n:]
	case s.end != nil:
		b.Ends, s.end = append(b.Ends, *s.end), nil
	default:
		time.Sleep(time.Millisecond)
	}
	return nil
}

func (s *listedSource) Close() error { return nil }

// hesitantSource delivers nothing in one call of Receive, after that of the first tuple.
type hesitantSource struct {
	listedSource
	calls int
}

func (s *hesitantSource) Receive(b *Bucket, max int) error {
	if s.calls++; s.calls == 2 {
		b.Tuples, b.Ends = b.Tuples[:0], b.Ends[:0]
		return nil
	}
	return s.listedSource.Receive(b, max)
}

// A receiver that took nothing for longer than Silence does not blame the sender for it.
func TestReceiversOwnPauseIsNotSilence(t *testing.T) {
	const first = 1 << countBits
	const silence = 20 * time.Millisecond
	source := &hesitantSource{listedSource: listedSource{ids: []uint64{first, first + 1},
		end: &End{first, 2}}}
	receiver, err := NewReceiver(ReceiverOptions{Sources: []Source{source}, Bucket: 1,
		Silence: silence, Handle: func(int, *Bucket) { time.Sleep(2 * silence) }})
	if err != nil {
		t.Fatal(err)
	}
	r, err := receiver.Run(t.Context())
	if err != nil || r.Received != 2 || r.Ended != 1 || len(r.Marks) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// Tuples that are missing or arrive twice are counted and marked. All tuples that arrived are
// logged, in the order in which they arrived.
func TestReceiverMarksAndLogsWhatItSees(t *testing.T) {
	const first = 1 << countBits
	ids := []uint64{first, first + 1, first + 1, first + 5, first + 4, first + 5}
	dir := t.TempDir()
	receiver, err := NewReceiver(ReceiverOptions{
		Sources: []Source{&listedSource{ids: ids, end: &End{first, 8}}}, Bucket: 2,
		Log: &handlers.Options{Dir: dir, Policy: "overwrite"},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := receiver.Run(t.Context())
	want := Check{Received: 6, Lost: 4, Duplicates: 2, Reordered: 1, Sources: 1, Ended: 1}
	if err != nil || r.Check != want || r.Drops != "" {
		t.Errorf("%+v, want %+v, %v, %s", r.Check, want, err, r.Drops)
	}
	counts := map[Mark]uint64{}
	for _, m := range r.Marks {
		counts[m.Mark] = m.Count
	}
	if len(counts) != 2 || counts[Lost] != 4 || counts[Duplicated] != 2 {
		t.Errorf("marks %v, want 4 lost and 2 twice", r.Marks)
	}
	var logged []uint64
	for _, record := range ringsIn(t, dir)["receiver#0/recv"] {
		logged = append(logged, record.ID)
	}
	if !slices.Equal(logged, ids) {
		t.Errorf("the channel has %x, want %x", logged, ids)
	}
}

// If no sender comes, the receiver reports that and ends.
func TestReceiverWaitsNoLongerThanItsPatience(t *testing.T) {
	says := newNoticed()
	receiver, err := NewReceiver(ReceiverOptions{
		Sources: []Source{&listedSource{}}, Patience: 20 * time.Millisecond, Notice: says.say,
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := receiver.Run(t.Context())
	if err != nil || r.Received > 0 || !has(r.Marks, SenderGone) {
		t.Errorf("%+v, %v", r, err)
	}
	says.waitForMark(t, SenderGone)
}

// If the channels of a run cannot be opened, the run goes on, and reports that it logs nothing.
func TestLoadGoesOnWithoutItsChannels(t *testing.T) {
	log := &handlers.Options{Dir: t.TempDir(), Policy: "nosuch"}
	receiver, err := NewReceiver(ReceiverOptions{
		Sources: []Source{&listedSource{end: &End{}}}, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := receiver.Run(t.Context()); err != nil || r.Drops == "" {
		t.Errorf("received: %+v, %v", r, err)
	}
	clock, sink := newFakes()
	o := SenderOptions{Schedule: mustSchedule(t, "constant:1000x10ms"), Log: log}
	if r, err := o.run(t, clock, sink); err != nil || r.Sent != 10 || r.Drops == "" {
		t.Errorf("sent: %d, %q, %v", r.Sent, r.Drops, err)
	}
}

// If a ring is full, events are missing in the logs. Both ends report how many.
func TestLoadIsMarkedByWhatWasNotLogged(t *testing.T) {
	log := &handlers.Options{Dir: t.TempDir(), Policy: "drop", Buffer: "64KiB"} // 4,096 events
	var ids []uint64
	for k := range uint64(5000) {
		ids = append(ids, 1<<countBits+k)
	}
	receiver, err := NewReceiver(ReceiverOptions{
		Sources: []Source{&listedSource{ids: ids, end: &End{ids[0], 5000}}}, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	received, err := receiver.Run(t.Context())
	if err != nil || !received.Whole() || len(received.Marks) != 1 ||
		received.Marks[0].Mark != NotLogged || received.Marks[0].Count != 5000-4096 {
		t.Errorf("received: %+v, %v", received, err)
	}
	clock, sink := newFakes()
	r, err := SenderOptions{
		Schedule: mustSchedule(t, "constant:1000000x5ms"), Log: log,
	}.run(t, clock, sink)
	if err != nil || r.Sent != 5000 || len(r.Marks) != 1 || r.Marks[0].Mark != NotLogged ||
		r.Marks[0].Count != 2*(5000-4096) {
		t.Errorf("sent: %d, %v, %v", r.Sent, r.Marks, err)
	}
}

// docs/load.md must explain each mark.
func TestEveryMarkIsExplained(t *testing.T) {
	page, err := os.ReadFile("../docs/load.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("marks.go")
	if err != nil {
		t.Fatal(err)
	}
	marks := regexp.MustCompile(`Mark = "([a-z-]+)"`).FindAllSubmatch(source, -1)
	for _, m := range marks {
		if !strings.Contains(string(page), "`"+string(m[1])+"`") {
			t.Errorf("docs/load.md does not explain the mark %q", m[1])
		}
	}
	if len(marks) < 11 {
		t.Errorf("%d marks found in marks.go", len(marks))
	}
}
