package messages

// Find finds the two ends of the messages in the logs of captures, without a run. For every message
// of which both ends are known, it calls the function each. Find changes the logs.
func Find(logs []*Log, each func(Match)) Matched { return match(logs, sameNode, each) }

// Calls counts the captured calls on a socket.
type Calls struct{ Sent, Received uint64 }

// Calls counts the calls on each socket, by its cookie. Find changes the log, so call Calls first.
func (l *Log) Calls() map[uint64]Calls {
	all := map[uint64]Calls{}
	for cookie, s := range l.sockets {
		all[cookie] = Calls{uint64(len(s.sends)), uint64(len(s.receives))}
	}
	return all
}
