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
		if err := k.Load(); err != nil {
			return nil, err
		}
		r := role{receivesFirst: receivesFirst(k)}
		if len(k.Receives) > 0 {
			r.reader = k.Receives[0].By
		}
		v.of[k] = r
		for _, all := range [][]messages.Call{k.Sends, k.Receives} {
			for i := range all {
				c := &all[i]
				e, known := v.ends[c.Log]
				if known && momentOf(c) >= momentOf(&e[0]) && momentOf(c) <= momentOf(&e[1]) {
					continue
				}
				if !known || momentOf(c) < momentOf(&e[0]) {
					e[0] = *c
				}
				if !known || momentOf(c) > momentOf(&e[1]) {
					e[1] = *c
				}
				v.ends[c.Log] = e
			}
		}
		k.Release()
	}
	return v, nil
}

func receivesFirst(s *messages.Socket) bool {
	switch {
	case len(s.Receives) == 0:
		return false
	case len(s.Sends) == 0:
		return true
	}
	return s.Receives[0].Hi_cycles < s.Sends[0].Lo_cycles
}
