// Package returntrip measures a tuple's latency by a round trip: where the tuple arrives, the
// program acknowledges it over the network. This is ReT, the usual method without related counters.
// Cloudprofiler compares its own bound with the bound of ReT.
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
// (ret-sent); the tuple arrives (ret-arrived); the start receives the end's acknowledgement
// (ret-acknowledged); the end receives the start's echo of the acknowledgement (ret-echoed). With
// the round trips
//
//	start = ret-acknowledged − ret-sent      on the start's counter
//	end   = ret-echoed − ret-arrived         on the end's counter
//
// the tuple took at least start − end and at most start. Each round trip is measured on one
// counter, so no relation of counters is needed. The price: the error is a whole round trip, and
// each tuple costs a packet in each direction. The nominal frequencies convert a duration on the
// end's counter into cycles of the start's counter.
//
// There is one start, because an end must know where to send acknowledgements. Any number of ends
// may share the start. If a packet is lost, the tuple's later events are missing. If an
// acknowledgement arrives twice, both later events are logged twice, because the start echoes it
// twice. If an echo arrives twice, ret-echoed is logged twice. FORMAT.md describes the packets.
// Packets are not authenticated: anyone who can send to the sockets and knows the stream's number
// can add events to the two channels that log received packets.
//
// The package does not match the four events and draws no conclusion: package analysis reads the
// logs.
package returntrip
