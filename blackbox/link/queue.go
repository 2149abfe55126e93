package link

import "math"

// Requests often wait in a queue for a thread: the request that was received first begins first. A
// request begins with its first call or, if it has none, with its reply. If it begins while others
// wait that were received before it, it overtakes them. Each time that a request overtakes another
// one, the sharing becomes less probable by the same factor, which the model learns. If a program
// takes waiting requests at random, the model learns the factor 1.
//
// A request that its own thread begins at once waits in no queue, however long the thread sleeps.
//
// All this is only for programs with several threads. If one thread sends everything, the type
// order says more.

// A queueCount says how often requests began while others waited, and how many of these they
// overtook.
type queueCount struct {
	began    [mostWaiting + 1]float64 // by the number of requests that waited, and this one
	overtook float64
}

const (
	mostWaiting  = 2*queueReach + 1
	mostOvertook = 4.0 // largest logarithm of the factor
	// A request is compared only with so many that were received directly before it. If a request
	// is stuck while many others overtake it, this does not make the sharing hopeless.
	queueReach = 4
)

// startOf returns when a request with a given script begins. It returns farFuture if that is not
// known, because calls may be missing from the window, or if the request waits in no queue.
func (s *sharing) startOf(r int32, script []int32) int64 {
	q, n := &s.requests[r], len(s.calls)
	first, at := &q.reply, q.to
	if len(script) > 0 {
		first, at = &s.calls[script[0]].sent, s.calls[script[0]].from
	} else if n == 0 || q.from < s.calls[0].from || q.to > s.calls[n-1].from {
		return farFuture
	}
	if first.by != 0 && first.directlyAfter(q.begin) {
		return farFuture
	}
	return at
}

// startWith returns when a request begins if its script loses some calls, and gets others.
func (s *sharing) startWith(r int32, without, with []int32) int64 {
	kept := s.scripts[r]
	for len(kept) > 0 && len(without) > 0 && kept[0] == without[0] {
		kept, without = kept[1:], without[1:]
	}
	if len(with) > 0 && (len(kept) == 0 || with[0] < kept[0]) {
		kept = with
	}
	return s.startOf(r, kept)
}

// findStarts finds when requests begin.
func (s *sharing) findStarts() {
	if s.order == nil || s.order.threads < 2 {
		return
	}
	if s.starts == nil {
		s.starts = make([]int64, len(s.requests))
	}
	for r := range s.requests {
		s.starts[r] = s.startOf(int32(r), s.scripts[r])
	}
}

// overtakes returns how many requests a request overtakes.
func (s *sharing) overtakes(r int32) (n int) {
	at := s.starts[r]
	if at == farFuture {
		return 0
	}
	for _, start := range s.starts[max(0, r-queueReach):r] {
		n += count(start > at && start != farFuture)
	}
	return n
}

// disorder returns how many requests a request overtakes, and how many overtake it.
func (s *sharing) disorder(r int32) int {
	n, at := s.overtakes(r), s.starts[r]
	if at == farFuture {
		return n
	}
	last := min(int(r)+queueReach, len(s.starts)-1)
	for q := int(r) + 1; q <= last && s.requests[q].from < at; q++ {
		n += count(s.starts[q] < at)
	}
	return n
}

// queueGain returns how the logarithm of the sharing's probability changes, as far as the queue
// decides, if two requests exchange parts of their scripts: see acceptExchange.
func (s *sharing) queueGain(from, to int32, mine, theirs []int32) (gain float64) {
	if s.starts == nil || s.m.overtaking == 0 {
		return 0
	}
	// One start is changed after the other, so that each pair of requests counts once.
	both, old := [2]int32{from, to}, [2]int64{}
	parts := [3][]int32{mine, theirs, mine}
	for i, r := range both {
		if r < 0 {
			continue
		}
		old[i] = s.starts[r]
		if start := s.startWith(r, parts[i], parts[i+1]); start != old[i] {
			gain += float64(s.disorder(r))
			s.starts[r] = start
			gain -= float64(s.disorder(r))
		}
	}
	for i, r := range both {
		if r >= 0 {
			s.starts[r] = old[i]
		}
	}
	return gain * s.m.overtaking
}

// teachQueue adds the beginning of a request to the experience.
func (s *sharing) teachQueue(c *queueCount, r int32, weight float64) {
	at := s.starts[r]
	if at == farFuture {
		return
	}
	overtook := s.overtakes(r)
	waiting := 1 + overtook
	last := min(int(r)+queueReach, len(s.starts)-1)
	for q := int(r) + 1; q <= last && s.requests[q].from < at; q++ {
		waiting += count(s.starts[q] > at && s.starts[q] != farFuture)
	}
	if waiting > 1 {
		c.began[waiting] += weight
		c.overtook += weight * float64(overtook)
	}
}

// add adds older counts, multiplied by the weight part.
func (c *queueCount) add(old *queueCount, part float64) {
	for n := range c.began {
		c.began[n] += part * old.began[n]
	}
	c.overtook += part * old.overtook
}

// overtaking returns the logarithm of the factor by which a sharing is less probable for each
// request that is overtaken: the factor with which the counts are most probable. It is never below
// 0. If there are few counts, it is too small, because requests then count as taken at random.
func (c *queueCount) overtaking() float64 {
	const few = 20
	low, high := 0.0, mostOvertook
	for range 20 {
		x := (low + high) / 2
		expected := few * (meanOvertook(2, x) - meanOvertook(2, 0))
		for n, began := range c.began {
			if began > 0 {
				expected += began * meanOvertook(n, x)
			}
		}
		if expected > c.overtook {
			low = x
		} else {
			high = x
		}
	}
	return low
}

// meanOvertook returns how many others a request overtakes on average, if n requests wait, and if
// it is less probable by the factor e^x for each one that it overtakes.
func meanOvertook(n int, x float64) float64 {
	sum, all := 0.0, 0.0
	for k := range n {
		p := math.Exp(-x * float64(k))
		sum += p * float64(k)
		all += p
	}
	return sum / all
}
