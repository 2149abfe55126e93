// Package returntrip measures how long a tuple took by having its arrival acknowledged over the
// network: ReT, the usual way without related counters, and here the baseline that Cloudprofiler's
// own bound is compared with.
//
//	// where tuples begin                          // where they end
//	s, err := returntrip.NewStart(conn, "source#0", o)    e, err := returntrip.NewEnd(conn, startAddress, "sink#0", o)
//	s.Log(tuple.ID)                                e.Log(tuple.ID)
//	s.Close()                                      e.Close()
//
// An event is logged at each of four moments, in four ordinary channels: the tuple leaves
// (ret-sent), it arrives (ret-arrived), the start has the end's acknowledgement (ret-acknowledged),
// the end has the start's echo of that (ret-echoed). With the round trips
//
//	start = ret-acknowledged − ret-sent      on the start's counter
//	end   = ret-echoed − ret-arrived         on the end's counter
//
// the tuple took at least start − end and at most start. Both lie on one counter, so no relation of
// counters is needed; the price is that the error is a whole round trip at the time of the
// measurement, and a packet for each tuple in each direction. What a duration on the end's counter
// is in cycles of the start's, their nominal frequencies must say.
//
// There is one start: an end knows whom to acknowledge. Any number of ends may share it. Packets
// that are lost leave a tuple without its later events, and packets that come twice log one twice.
// FORMAT.md describes the packets. They are not authenticated: whoever can send to the sockets and
// knows the stream's number can put events into the two channels that packets feed.
//
// The package joins nothing and draws no conclusion: package analysis reads the logs.
package returntrip
