package bench

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cloudprofiler/cloudprofiler/generator"
)

// A Server is an engine whose limit is known: a token bucket that lets a rate through, and that may stall for a time in every period, in which no tokens
// come. Tuples wait in memory.
type Server struct {
	Rate   float64       // tuples a second
	Stall  time.Duration // 0: it does not stall
	Period time.Duration

	done func(ids ...uint64)

	mu      sync.Mutex // guards what follows
	waiting []uint64
	stopped bool
}

// maxWaiting is what a server lets wait: what comes beyond is refused.
const maxWaiting = 4 << 20

// tokenSpan is how many tokens the bucket holds, as time: enough to make good that this goroutine was not run at once.
const tokenSpan = 20 * time.Millisecond

// ParseServer reads bucket:RATE or bucket:RATE,stall:DURATION/PERIOD.
func ParseServer(text string) (*Server, error) {
	bad := fmt.Errorf("read target %q: want bucket:RATE or bucket:RATE,stall:DURATION/PERIOD, as in bucket:100000,stall:50ms/1s", text)
	head, tail, stalls := strings.Cut(text, ",")
	rate, ok := strings.CutPrefix(head, "bucket:")
	s := &Server{}
	var err error
	if s.Rate, err = strconv.ParseFloat(rate, 64); !ok || err != nil || !(s.Rate >= 1 && s.Rate <= 1e9) {
		return nil, bad
	}
	if !stalls {
		return s, nil
	}
	spec, ok := strings.CutPrefix(tail, "stall:")
	length, period, cut := strings.Cut(spec, "/")
	stall, errStall := time.ParseDuration(length)
	s.Period, err = time.ParseDuration(period)
	if s.Stall = stall; !ok || !cut || errStall != nil || err != nil || stall <= 0 || s.Period <= stall {
		return nil, bad
	}
	return s, nil
}

// Limit is the rate that it sustains.
func (s *Server) Limit() float64 {
	if s.Stall == 0 {
		return s.Rate
	}
	return s.Rate * (1 - float64(s.Stall)/float64(s.Period))
}

// Connect is the way in.
func (s *Server) Connect(int) (generator.Sink, error) {
	return generator.SinkFunc(func(tuples []generator.Tuple) (int, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		n := min(len(tuples), maxWaiting-len(s.waiting))
		for _, t := range tuples[:n] {
			s.waiting = append(s.waiting, t.ID)
		}
		return n, nil
	}), nil
}

// Start lets it serve, and tell what comes out, until the returned function is called.
func (s *Server) Start(done func(ids ...uint64)) (stop func()) {
	s.done = done
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.serve()
	}()
	return func() {
		s.mu.Lock()
		s.stopped = true
		s.mu.Unlock()
		<-ended
	}
}

func (s *Server) serve() {
	begun := time.Now()
	last, tokens := time.Duration(0), 0.0
	var out []uint64
	for {
		now := time.Since(begun)
		tokens = min(tokens+s.Rate*s.open(last, now).Seconds(), s.Rate*tokenSpan.Seconds())
		last = now
		s.mu.Lock()
		if s.stopped {
			s.mu.Unlock()
			return
		}
		n := 0
		if s.Stall == 0 || now%s.Period >= s.Stall {
			n = min(len(s.waiting), int(tokens))
		}
		out = append(out[:0], s.waiting[:n]...)
		if s.waiting = s.waiting[n:]; len(s.waiting) == 0 {
			s.waiting = nil
		}
		s.mu.Unlock()
		if tokens -= float64(n); n > 0 {
			s.done(out...)
		}
		time.Sleep(200 * time.Microsecond)
	}
}

// open is how much of a time is outside of stalls, which come at the beginning of each period.
func (s *Server) open(from, to time.Duration) time.Duration {
	if s.Stall == 0 {
		return to - from
	}
	until := func(t time.Duration) time.Duration {
		return t/s.Period*(s.Period-s.Stall) + max(0, t%s.Period-s.Stall)
	}
	return until(to) - until(from)
}
