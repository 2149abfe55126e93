package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/returntrip"
)

// source makes every n-th tuple of the stream, where n is the number of sources. It sends each of
// these tuples when the tuple is due.
type source struct {
	stream   *Stream
	instance int
	of       int
	ids      *handlers.IDs
	conn     *nats.Conn
	sender   *sender
	channels *channels
	probes   probes
	switched switchSide
	leaves   *returntrip.Start // nil without return trips
	counts   Counts
	opened   moment
}

// run sends the tuples. Once the instances of all later operators are ready, it calls the function
// begin, which returns the time at which the first tuple is due.
func (s *source) run(ctx context.Context, begin func() time.Time) error {
	if err := s.sender.awaitReceivers(ctx); err != nil {
		return s.failed(err)
	}
	epoch := begin()
	begin_us := s.stream.begin_us(epoch)
	var text []byte
	m := message{kind: kindTuple, from: s.instance, fields: make([]string, 1)}
	for i := s.instance; i < s.stream.Tuples; i += s.of {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		due := epoch.Add(s.stream.dueAfter(i))
		if s.stream.PerSecond > 0 {
			// The schedule is absolute: a late tuple does not shift later tuples. The event time is
			// when the tuple was due.
			time.Sleep(time.Until(due))
		}
		s.switched.followSwitch(&s.probes)
		id, ok := s.ids.Next()
		if !ok {
			return s.failed(errors.New("no ids left"))
		}
		if s.probes.intended != nil {
			// A latency that begins here includes the time that a tuple waits for a late source.
			s.probes.intended.LogAt(s.opened.counterAt(due, readMoment()), id)
		}
		s.probes.start.Log(id)
		e := s.stream.makeEvent(i, begin_us)
		text = e.json(text[:0])
		m.id, m.watermark_us, m.fields[0] = id, e.time_us, string(text)
		s.probes.end.Log(id)
		s.leaves.Log(id)
		if err := s.sender.send(ctx, &m, uint64(i/s.of)); err != nil {
			return s.failed(err)
		}
		s.counts.Sent++
	}
	s.probes.poison()
	if err := s.sender.end(); err != nil {
		return s.failed(err)
	}
	return nil
}

// moment is a reading of the counter and a reading of the clock at one time.
type moment struct {
	counter uint64
	at      time.Time
}

// readMoment reads the counter before and after the clock, and repeats this until the two readings
// of the counter get no closer. So it returns no moment at which this thread was interrupted.
func readMoment() (m moment) {
	for narrow := uint64(1<<64 - 1); ; {
		before := asm.Counter()
		at := time.Now()
		if took := asm.Counter() - before; took < narrow {
			narrow, m = took, moment{before + took/2, at}
			continue
		}
		return m
	}
}

// counterAt returns the counter at a time shortly before the present moment. It uses the counter's
// mean rate since an earlier moment (m).
func (m moment) counterAt(due time.Time, now moment) uint64 {
	rate := float64(now.counter-m.counter) / float64(now.at.Sub(m.at))
	return now.counter - uint64(max(0, float64(now.at.Sub(due))*rate))
}

func (s *source) failed(err error) error { return fmt.Errorf("source#%d: %w", s.instance, err) }

func (s *source) close() error {
	if s.conn != nil {
		s.conn.Close()
	}
	return errors.Join(s.leaves.Close(), s.channels.close())
}
