// Package returntrip measures how long a tuple took by having its arrival acknowledged over the
// network. This is ReT, the usual method without related counters. Here it is the baseline for
// Cloudprofiler's own bound.
//
//	// where tuples begin
//	s, err := returntrip.NewStart(conn, "source#0", o)
//	s.Log(tuple.ID)
//	s.Close()
//
//	// where tuples end
//	e, err := returntrip.NewEnd(conn, startAddress, "sink#0", o)
//	e.Log(tuple.ID)
//	e.Close()
//
// An event is logged at each of four moments, in four ordinary channels: the tuple leaves
// (ret-sent), it arrives (ret-arrived), the start receives the end's acknowledgement
// (ret-acknowledged), the end receives the start's echo of that (ret-echoed). With the round trips
//
//	start = ret-acknowledged − ret-sent      on the start's counter
//	end   = ret-echoed − ret-arrived         on the end's counter
//
// the tuple took at least start − end and at most start. Each round trip lies on one counter, so no
// relation of counters is needed. The price is an error of a whole round trip at the time of the
// measurement, and a packet for each tuple in each direction. The nominal frequencies must say what
// a duration on the end's counter is in cycles of the start's.
//
// There is one start, because an end must know whom to acknowledge. Any number of ends may share
// it. A lost packet leaves a tuple without its later events, and a packet that comes twice logs one
// of them twice. FORMAT.md describes the packets. They are not authenticated: anybody who can send
// to the sockets and knows the stream's number can put events into the two channels that packets
// feed.
//
// The package joins nothing and draws no conclusion: package analysis reads the logs.
package returntrip
