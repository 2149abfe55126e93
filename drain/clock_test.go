package drain

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// The wall clock is only for display. Even if somebody sets it before or after a ring is opened,
// the drainer finds the ring and its events are in the log.
func TestClockThatIsSet(t *testing.T) {
	// These are offsets in a ring's file: of the checksum, and of the interval of UTC in which the
	// ring was opened.
	const identity, atUTC = 248, 72
	r := newRig(t, Options{SegmentBytes: 1})
	const day = 24 * time.Hour
	for _, by := range []time.Duration{10_000 * day, -10_000 * day} {
		name := map[bool]string{true: "back/x", false: "forth/x"}[by > 0]
		c := r.open(name, handlers.Options{Handler: "buffered"})
		b, err := os.ReadFile(c.Path())
		if err != nil {
			t.Fatal(err)
		}
		b = b[:identity+4]
		opened := time.Now().Add(by)
		binary.LittleEndian.PutUint64(b[atUTC:], uint64(opened.UnixNano()))
		binary.LittleEndian.PutUint64(b[atUTC+8:], uint64(opened.UnixNano()+100))
		binary.LittleEndian.PutUint32(b[identity:],
			crc32.Checksum(b[:identity], crc32.MakeTable(crc32.Castagnoli)))
		patchFile(t, c.Path(), 0, b)
		// The wall clock also determines the directory's modification time, from which the drainer
		// learns that there is a new file.
		if err := os.Chtimes(r.rings, opened, opened); err != nil {
			t.Fatal(err)
		}
		logMany(c, 0, 100)
		r.advanceClock(DefaultPoll)
		// After a change of settings, the headers of new segments have the present time of the wall
		// clock.
		applySettings(t, r, channel.Settings{Kind: channel.Identity})
		logMany(c, 100, 200)
		r.runFor(time.Second)
		logMany(c, 200, 300)
		r.runFor(time.Second)
		c.Close()
		r.runFor(200 * time.Millisecond)
		k := readLogs(t, r.logs)[name]
		k.checkIntact(t)
		checkIDs(t, name, k.ids(), 0, 300)
		if at := time.Unix(0, k.header.UTCLo_ns); at.Sub(opened).Abs() < 9000*day {
			t.Errorf("%s: the last header is of %s, the ring of %s", name, at, opened)
		}
	}
	if len(r.noticed) > 0 {
		t.Errorf("noticed %v", r.noticed)
	}
}
