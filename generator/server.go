package generator

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Server is an engine with a known limit. It is a token bucket that lets tuples out at Rate. It
// may stall once in every period. During a stall it adds no tokens.
//
// Tuples wait in memory. While tuples wait, the server loses no tokens. If this machine did not run
// the server for a time, the server makes up for that time as soon as it runs. So its limit is the
// same on a busy machine.
type Server struct {
	Rate   float64       // tuples a second
	Stall  time.Duration // 0 if it does not stall
	Period time.Duration

	done func(ids ...uint64)

	mu      sync.Mutex // guards what follows
	begun   time.Time
	waiting []uint64
	since   time.Duration // from begun until the first of the waiting tuples arrived
	stopped bool
}

// maxWaiting is the largest number of tuples that may wait in a server. The server refuses more.
const maxWaiting = 4 << 20

// tokenSpan limits the bucket while no tuple waits: then the bucket has at most the tokens that are
// added in this time. In a trial, an overload shows only after these tokens are used up. So
// tokenSpan is short.
const tokenSpan = time.Millisecond

// ParseServer reads bucket:RATE or bucket:RATE,stall:DURATION/PERIOD.
func ParseServer(text string) (*Server, error) {
	bad := fmt.Errorf("read target %q: want bucket:RATE or bucket:RATE,stall:DURATION/PERIOD, "+
		"as in bucket:100000,stall:50ms/1s", text)
	head, tail, stalls := strings.Cut(text, ",")
	rate, ok := strings.CutPrefix(head, "bucket:")
	s := &Server{}
	var err error
	s.Rate, err = strconv.ParseFloat(rate, 64)
	if !ok || err != nil || !(s.Rate >= 1 && s.Rate <= 1e9) {
		return nil, bad
	}
	if !stalls {
		return s, nil
	}
	spec, ok := strings.CutPrefix(tail, "stall:")
	length, period, cut := strings.Cut(spec, "/")
	stall, errStall := time.ParseDuration(length)
	s.Period, err = time.ParseDuration(period)
	s.Stall = stall
	if !ok || !cut || errStall != nil || err != nil || stall <= 0 || s.Period <= stall {
		return nil, bad
	}
	return s, nil
}

// Connect returns the sink that leads into the server.
func (s *Server) Connect(int) (Sink, error) {
	return SinkFunc(func(tuples []Tuple) (int, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.waiting) == 0 {
			s.since = time.Since(s.begun)
		}
		n := min(len(tuples), maxWaiting-len(s.waiting))
		for _, t := range tuples[:n] {
			s.waiting = append(s.waiting, t.ID)
		}
		return n, nil
	}), nil
}

// Start starts the server. The server calls the function done with the ids of the tuples that come
// out. The returned function stops the server.
func (s *Server) Start(done func(ids ...uint64)) (stop func()) {
	s.done, s.begun = done, time.Now()
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
	last, tokens := time.Duration(0), 0.0
	var out []uint64
	for {
		s.mu.Lock()
		if s.stopped {
			s.mu.Unlock()
			return
		}
		now := time.Since(s.begun)
		busy := now
		if len(s.waiting) > 0 {
			busy = max(last, s.since)
		}
		tokens = s.fillTokens(tokens, last, busy, now)
		last = now
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

// fillTokens adds the tokens of two stretches of time. Between the moments last and busy, no tuple
// waited, and tokenSpan limits the bucket. Between the moments busy and now, tuples waited, and
// nothing limits the bucket.
func (s *Server) fillTokens(tokens float64, last, busy, now time.Duration) float64 {
	if busy > last {
		tokens = min(tokens+s.Rate*s.openTime(last, busy).Seconds(), s.Rate*tokenSpan.Seconds())
	}
	return tokens + s.Rate*s.openTime(busy, now).Seconds()
}

// openTime returns how much of the time between the moments from and to is outside of stalls. Each
// period begins with a stall.
func (s *Server) openTime(from, to time.Duration) time.Duration {
	if s.Stall == 0 {
		return to - from
	}
	until := func(t time.Duration) time.Duration {
		return t/s.Period*(s.Period-s.Stall) + max(0, t%s.Period-s.Stall)
	}
	return until(to) - until(from)
}
