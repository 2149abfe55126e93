package paths

import (
	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// A match of a send with a receive on another node is refuted if the proven bound says that the
// message was received before it was sent. Then the two ends belong to different calls, and one
// moment of each is not known.

// boundRefutes returns a function that reports whether the bound between two nodes refutes a match.
// An estimate refutes nothing. If only the end of the sending call was seen, nothing is refuted
// either, because the message may have been received before the sending call ended.
func boundRefutes(times *messages.Times) func(sent, received *messages.Call) bool {
	return func(sent, received *messages.Call) bool {
		if sent == nil || received == nil || sent.Log.Node == received.Log.Node || !sent.Early {
			return false
		}
		d, err := times.Between(sent, received)
		return err == nil && d.Verdict == tscratio.Consistent && d.Hi < 0
	}
}

// separateRefuted passes a call on. If the bound refutes one of its messages, the two ends of the
// message are passed on as those of different calls.
func (o *observer) separateRefuted(f *foundCall) {
	switch {
	case o.refuted(f.sent, f.received):
		o.seen.Refuted++
		other := *f
		f.received, f.heard, f.replied = nil, nil, nil
		if !other.answers {
			// What the callee received is a request from an unknown caller.
			other.sent, other.got, other.caller = nil, nil, calls.Outside
			o.pass(&other, true)
		}
	case o.refuted(f.replied, f.got):
		o.seen.Refuted++
		f.replied = nil
	}
	o.pass(f, false)
}
