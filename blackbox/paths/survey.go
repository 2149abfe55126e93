package paths

import "github.com/cloudprofiler/cloudprofiler/blackbox/messages"

// A survey has what must be known about all sockets before the calls of any of them are made.
type survey struct {
	sockets []*messages.Socket
	of      map[*messages.Socket]role
	ends    map[*messages.Log][2]messages.Call // the first and the last call
}

// role is what shows whether a socket belongs to a client or to a server.
type role struct {
	receivesFirst bool
	reader        *messages.Thread // that received first; nil: none did
}

func surveySockets(sockets []*messages.Socket) (*survey, error) {
	v := &survey{sockets, map[*messages.Socket]role{}, map[*messages.Log][2]messages.Call{}}
	for _, k := range sockets {
		sends, receives := k.Sends.Read(), k.Receives.Read()
		r := role{receivesFirst: receivesFirst(sends, receives)}
		if !receives.Done {
			r.reader = receives.Call.By
		}
		v.of[k] = r
		for _, all := range [2]*messages.Reader{sends, receives} {
			for ; !all.Done; all.Next() {
				v.note(&all.Call)
			}
		}
		if err := k.Err(); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// note notes a call if it is the first or the last one of its log so far.
func (v *survey) note(c *messages.Call) {
	e, known := v.ends[c.Log]
	if known && momentOf(c) >= momentOf(&e[0]) && momentOf(c) <= momentOf(&e[1]) {
		return
	}
	if !known || momentOf(c) < momentOf(&e[0]) {
		e[0] = *c
	}
	if !known || momentOf(c) > momentOf(&e[1]) {
		e[1] = *c
	}
	v.ends[c.Log] = e
}

// receivesFirst reports whether a socket received before it sent. The readers are at its first
// calls.
func receivesFirst(sends, receives *messages.Reader) bool {
	switch {
	case receives.Done:
		return false
	case sends.Done:
		return true
	}
	return receives.Call.Hi_cycles < sends.Call.Lo_cycles
}
