package generator

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// ErrSchedule is wrapped by errors about impossible schedules.
var ErrSchedule = errors.New("bad schedule")

// A Schedule fixes when each tuple of a run is due. It never changes, so any number of goroutines
// may use it.
//
// Times count from the start of the run. Unless times are random or recorded, each is computed from
// the tuple's number, and not from the previous time. So errors do not add up over a run, and the
// gap between tuples need not be a whole number of nanoseconds.
type Schedule interface {
	// Thread returns the share of thread i of n: the due times of tuples i, i+n, i+2n and so on. A
	// random schedule makes independent times for each thread instead.
	Thread(i, n int) Times
	// Duration is the time that the schedule spans.
	Duration() time.Duration
	// Tuples is the number of tuples in the schedule. A random schedule returns the expected
	// number.
	Tuples() float64
	// String returns the form that ParseSchedule reads.
	String() string
}

// Times returns the next due time at each call, in nanoseconds after the run's start. Times never
// decrease. ok is false after the last due time.
type Times func() (due_ns float64, ok bool)

// maxRate is a rate that no machine reaches: ten tuples a nanosecond. A lower rate may still be too
// high for this machine. The sender then reports that.
const maxRate = 1e10

// maxDuration limits times in nanoseconds, so that a float64 is exact to 1/64 of a nanosecond.
const maxDuration = 24 * time.Hour

// A Stretch is a part of a schedule in which the rate changes linearly from one value to another.
type Stretch struct {
	From, To float64 // tuples a second
	For      time.Duration
}

// linearSchedule is a schedule of stretches.
type linearSchedule struct {
	text     string
	stretch  []Stretch
	begin_ns []float64 // when each stretch begins, and when the last ends
	before   []float64 // tuples due before each stretch, and in total
}

// Constant returns a schedule with one rate.
func Constant(rate float64, d time.Duration) (Schedule, error) {
	return Stretches("constant:"+number(rate)+"x"+d.String(), Stretch{rate, rate, d})
}

// Ramp returns a schedule with a rate that changes linearly from one value to another.
func Ramp(from, to float64, d time.Duration) (Schedule, error) {
	return Stretches("ramp:"+number(from)+"-"+number(to)+"x"+d.String(), Stretch{from, to, d})
}

// Stretches returns a schedule that consists of the given parts, one after the other. The
// schedule's method String returns the argument text.
func Stretches(text string, parts ...Stretch) (Schedule, error) {
	s := &linearSchedule{text: text, stretch: parts, begin_ns: []float64{0}, before: []float64{0}}
	if len(parts) == 0 {
		return nil, fmt.Errorf("%w %q: it has no part", ErrSchedule, text)
	}
	for _, p := range parts {
		if !(p.From >= 0 && p.From <= maxRate && p.To >= 0 && p.To <= maxRate) {
			return nil, fmt.Errorf("%w %q: a rate from %g to %g: give 0 to %g tuples a second",
				ErrSchedule, text, p.From, p.To, maxRate)
		}
		if p.For <= 0 || p.For > maxDuration {
			return nil, fmt.Errorf("%w %q: a part of %s: give more than 0 and at most %s",
				ErrSchedule, text, p.For, maxDuration)
		}
		last := len(s.before) - 1
		s.begin_ns = append(s.begin_ns, s.begin_ns[last]+float64(p.For))
		s.before = append(s.before, s.before[last]+(p.From+p.To)/2*p.For.Seconds())
	}
	if s.Duration() > maxDuration {
		return nil, fmt.Errorf("%w %q: it takes %s, more than %s",
			ErrSchedule, text, s.Duration(), maxDuration)
	}
	if s.Tuples() == 0 {
		return nil, fmt.Errorf("%w %q: it holds no tuple", ErrSchedule, text)
	}
	return s, nil
}

func (s *linearSchedule) String() string { return s.text }
func (s *linearSchedule) Duration() time.Duration {
	return time.Duration(s.begin_ns[len(s.begin_ns)-1])
}
func (s *linearSchedule) Tuples() float64 { return math.Ceil(s.before[len(s.before)-1]) }

func (s *linearSchedule) Thread(i, n int) Times {
	k, at := float64(i), 0
	return func() (float64, bool) {
		for at < len(s.stretch) && k >= s.before[at+1] {
			at++
		}
		if at == len(s.stretch) {
			return 0, false
		}
		p := s.stretch[at]
		due := s.begin_ns[at] + 1e9*timeOf(k-s.before[at], p.From, (p.To-p.From)/p.For.Seconds())
		k += float64(n)
		return due, true
	}
}

// timeOf solves n = rate·t + slope·t²/2 for t. It uses the form of the solution that does not
// subtract nearly equal numbers, because such a subtraction would lose digits.
func timeOf(n, rate, slope float64) float64 {
	if n == 0 {
		return 0
	}
	return 2 * n / (rate + math.Sqrt(max(0, rate*rate+2*slope*n)))
}

// burstSchedule is a schedule of groups of tuples that are due together.
type burstSchedule struct {
	size   float64
	period time.Duration
	span   time.Duration
}

// Burst returns a schedule of groups: at the beginning of every period, a group is due. The
// parameter size is the number of tuples in a group.
func Burst(size int, period, d time.Duration) (Schedule, error) {
	b := burstSchedule{float64(size), period, d}
	if size < 1 || period <= 0 || d <= 0 || d > maxDuration || b.size/period.Seconds() > maxRate {
		return nil, fmt.Errorf("%w %q: give a size and a period above 0, a duration above 0 "+
			"and at most %s, and no more than %g tuples a second",
			ErrSchedule, b, maxDuration, maxRate)
	}
	return b, nil
}

func (b burstSchedule) String() string {
	return fmt.Sprintf("burst:%.0f/%sx%s", b.size, b.period, b.span)
}

func (b burstSchedule) Duration() time.Duration { return b.span }

func (b burstSchedule) Tuples() float64 {
	return b.size * math.Ceil(float64(b.span)/float64(b.period))
}

func (b burstSchedule) Thread(i, n int) Times {
	k := float64(i)
	return func() (float64, bool) {
		due := math.Floor(k/b.size) * float64(b.period)
		if due >= float64(b.span) {
			return 0, false
		}
		k += float64(n)
		return due, true
	}
}

// poissonSchedule is a schedule whose gaps are drawn from an exponential distribution.
type poissonSchedule struct {
	rate float64
	span time.Duration
	seed uint64
}

// Poisson returns a schedule with random times, like the load of many independent users. The same
// seed gives the same times to the same number of threads. Each thread has a random stream of its
// own, with its share of the rate. All threads together are a Poisson process of the whole rate.
func Poisson(rate float64, d time.Duration, seed uint64) (Schedule, error) {
	p := poissonSchedule{rate, d, seed}
	if !(rate > 0 && rate <= maxRate) || d <= 0 || d > maxDuration {
		return nil, fmt.Errorf("%w %q: give a rate above 0 and at most %g, "+
			"and a duration above 0 and at most %s", ErrSchedule, p, maxRate, maxDuration)
	}
	return p, nil
}

func (p poissonSchedule) String() string {
	return fmt.Sprintf("poisson:%sx%s@%d", number(p.rate), p.span, p.seed)
}
func (p poissonSchedule) Duration() time.Duration { return p.span }
func (p poissonSchedule) Tuples() float64         { return p.rate * p.span.Seconds() }

func (p poissonSchedule) Thread(i, n int) Times {
	random := rand.New(rand.NewPCG(p.seed, uint64(i)))
	mean_ns := 1e9 / p.rate * float64(n)
	due := 0.0
	return func() (float64, bool) {
		due += random.ExpFloat64() * mean_ns
		return due, due < float64(p.span)
	}
}

// replaySchedule is a recorded schedule.
type replaySchedule struct {
	name   string
	due_ns []float64
}

// Replay returns a schedule with the times of a trace. The trace has a line for each tuple with its
// time in seconds, in rising order. The first tuple is due at the start of the run. Replay skips
// empty lines and lines that begin with #.
func Replay(name string, trace io.Reader) (Schedule, error) {
	s := &replaySchedule{name: name}
	lines, first, last := bufio.NewScanner(trace), 0.0, 0.0
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		at, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(at) || math.IsInf(at, 0) {
			return nil, fmt.Errorf("%w %q: line %d: %.40q is not a time in seconds",
				ErrSchedule, name, n, text)
		}
		if len(s.due_ns) == 0 {
			first, last = at, at
		}
		if at < last {
			return nil, fmt.Errorf("%w %q: line %d: %.40q is before the line above: sort the trace",
				ErrSchedule, name, n, text)
		}
		if at-first > maxDuration.Seconds() {
			return nil, fmt.Errorf("%w %q: line %d: %.40q is more than %s after the first",
				ErrSchedule, name, n, text, maxDuration)
		}
		last = at
		s.due_ns = append(s.due_ns, (at-first)*1e9)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read trace %q: %w", name, err)
	}
	if len(s.due_ns) == 0 {
		return nil, fmt.Errorf("%w %q: the trace holds no time", ErrSchedule, name)
	}
	return s, nil
}

func (r *replaySchedule) String() string { return "replay:" + r.name }
func (r *replaySchedule) Duration() time.Duration {
	return time.Duration(r.due_ns[len(
		r.due_ns)-1])
}
func (r *replaySchedule) Tuples() float64 { return float64(len(r.due_ns)) }

func (r *replaySchedule) Thread(i, n int) Times {
	k := i
	return func() (float64, bool) {
		if k >= len(r.due_ns) {
			return 0, false
		}
		k += n
		return r.due_ns[k-n], true
	}
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
