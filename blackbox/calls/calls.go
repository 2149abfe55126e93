package calls

import (
	"cmp"
	"math"
	"slices"
)

// Unknown is the value of a moment that was not observed.
const Unknown = math.MinInt64

// Latest_ns limits the moments: they lie between -Latest_ns and Latest_ns.
const Latest_ns = 4e18

// A Call is a request that one program sends to another, and its response. Sent_ns and Got_ns are
// readings of the caller's clock, and Received_ns and Replied_ns of the callee's clock. If there is
// no response, or if nobody observed it, Got_ns and Replied_ns are Unknown.
type Call struct {
	Caller, Callee int32 // indices of places; Outside: a program that was not observed
	Sent_ns        int64 // the caller sent the request
	Received_ns    int64 // the callee received the request
	Replied_ns     int64 // the callee sent the response
	Got_ns         int64 // the caller received the response

	// These are the numbers of the threads at the four moments. A number only has a meaning within
	// its place. The number is 0 if the thread is not known.
	SentBy, ReceivedBy, RepliedBy, GotBy uint32

	SentWake, RepliedWake Wake // of the threads SentBy and RepliedBy

	// Connection is 0 unless several requests are known to have been open on the call's connection
	// at the same time. If several were open, nobody knows which response belongs to which request.
	// So each response is stored as a separate Call, with Answers set. This response answers one of
	// the calls with the same Connection.
	Connection uint32
	Answers    bool

	OneWay bool // nobody ever answers on the call's connection, so no response was lost
}

// A Wake is the last time that another thread of its place woke a thread before the thread sent
// something. At_ns is a reading of the place's clock. If no wake-up is known, By is 0.
type Wake struct {
	By    uint32 // number of the thread that woke it
	At_ns int64
}

// Outside is the place of programs that were not observed.
const Outside = -1

// Began_ns is the first known moment of a call. It may be a reading of either clock.
func (c *Call) Began_ns() int64 {
	for _, t := range [4]int64{c.Sent_ns, c.Received_ns, c.Got_ns, c.Replied_ns} {
		if t != Unknown {
			return t
		}
	}
	return Unknown
}

// A Place is one running program. Each copy of a program is a place of its own.
type Place struct {
	Program  string
	Instance string // "": the program runs only once
}

// Seen is what was observed of calls. It does not say which call caused which call.
type Seen struct {
	Places     []Place
	Calls      []Call // sorted by when they begin
	Quantum_ns int64  // moments are multiples of this

	// Known leads from a call to its cause, both as indices in Calls, if the cause is known from
	// another source, such as the logs of programs.
	Known map[int32]int32
}

// These are special values of Truth.Cause.
const (
	NoCause      = -1 // no received request caused the call
	UnknownCause = -2 // the data do not tell
)

// Truth says which call caused which call.
type Truth struct {
	Cause []int32 // number of the received call that caused each call, or a special value
	Path  []int32 // number of the path to which each call belongs
	Paths int
}

// A Set has calls, and the truth about which call caused which.
type Set struct {
	Seen
	Truth
	Oddities Oddities
}

// Oddities counts what was unusual or wrong in the traces that were read.
type Oddities struct {
	Spans      int `json:"spans"`
	Traces     int `json:"traces"`
	Duplicates int `json:"duplicates"` // spans that were left out because they occurred before
	Parentless int `json:"parentless"` // spans whose parent is not in the data
	Cycles     int `json:"cycles"`     // spans that are their own ancestors
	Backwards  int `json:"backwards"`  // spans that ended before they began
	Impossible int `json:"impossible"` // spans left out because of impossible times
	Malformed  int `json:"malformed"`  // spans, values and files that could not be read
	// Why says what was wrong with the first malformed span, value or file.
	Why string `json:"why,omitempty"`
}

// Arrange sorts the calls by when they begin, so that their order tells nothing about causes. It
// also finds the quantum of their moments.
func (s *Set) Arrange() {
	s.findQuantum()
	order := make([]int32, len(s.Calls))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		x, y := &s.Calls[a], &s.Calls[b]
		return cmp.Or(cmp.Compare(x.Began_ns(), y.Began_ns()),
			cmp.Compare(x.Callee, y.Callee), cmp.Compare(x.Replied_ns, y.Replied_ns))
	})
	to := make([]int32, len(order))
	for i, from := range order {
		to[from] = int32(i)
	}
	calls, causes, paths := s.Calls, s.Cause, s.Path
	s.Calls = make([]Call, len(order))
	s.Cause, s.Path = make([]int32, len(order)), make([]int32, len(order))
	for i, from := range order {
		s.Calls[i], s.Path[i], s.Cause[i] = calls[from], paths[from], causes[from]
		if causes[from] >= 0 {
			s.Cause[i] = to[causes[from]]
		}
	}
}

// findQuantum finds the quantum of the moments, among the quanta that recorders use. The beginnings
// of one clock differ by multiples of it. How the clock is set does not matter. Ends do not matter
// either: some recorders round when a span began, but not how long it took.
func (s *Set) findQuantum() {
	s.Quantum_ns = 1
	for _, q := range [...]int64{1_000_000, 1_000} {
		if s.fitsQuantum(q) {
			s.Quantum_ns = q
			return
		}
	}
}

func (s *Set) fitsQuantum(q int64) bool {
	first := make([]int64, len(s.Places)) // a moment of each clock
	for i := range first {
		first[i] = Unknown
	}
	for i := range s.Calls {
		c := &s.Calls[i]
		for k, t := range [2]int64{c.Sent_ns, c.Received_ns} {
			at := [2]int32{c.Caller, c.Callee}[k]
			switch {
			case t == Unknown || at < 0:
			case first[at] == Unknown:
				first[at] = t
			case (t-first[at])%q != 0:
				return false
			}
		}
	}
	return true
}
