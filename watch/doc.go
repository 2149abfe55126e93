// Package watch computes what the nodes of a fleet log at present: the throughput of each point,
// and the latency of each path with its bound. It is what "cprof top" shows.
//
//	v := watch.New(5 * time.Second)
//	// several times a second:
//	asked := time.Now()
//	link.Ask(ctx, coordinator.AskWatch, v.Request(asked), &answer)
//	v.Add(asked, time.Now(), &answer)
//	picture := v.Picture(time.Now())
//
// Each agent counts all events of its channels and sends a sample of them (control.Sample). All
// agents sample the same tuples, because a hash of a tuple's id decides whether the tuple is
// sampled. A View joins the sampled events of one id, translates their readings with the newest
// measurements of the nodes, and computes the durations between points.
//
// # What is true of a picture
//
// Every duration contains the true one, under the assumptions of the relations (package tscratio).
// Percentiles describe the tuples of the sample. A percentile is an interval from the percentile of
// the lower ends to the percentile of the upper ends.
//
// A picture ends at the frontier: the newest moment up to which every node has sent all that it
// logged. Newer events wait for the next picture. So a tuple does not seem to skip a node that
// sends later than others. A lost message only makes tuples incomplete. Some tuples may have no
// event at a point: the channel keeps only some events, the program drops events, or messages were
// lost. Then a tuple may have passed the point unseen, so the picture leaves out the tuple's
// durations across the point.
//
// The age of a picture is the time since its frontier. A limit of the age is proven, too. The
// server numbers its orders to the nodes. A node names the newest order that it received, and says
// that its data end d after the arrival of that order. A View knows a moment m that is earlier than
// the moment when the server sent that order. So the node's data end at m + d or later, and at any
// time t their age is at most t − m − d.
//
// The first Sample of a stream may count earlier events. If a Sample is lost, the View does not
// know at which moment the counts of the next Sample begin. So no rate uses the counts of these two
// Samples: the time over which a rate is measured may begin at such a Sample, but not before it.
//
// # What it does not do
//
// Package watch reads no logs. Package analysis reads logs, and handles links between ids, declared
// graphs and runs with several epochs. A picture lacks tuples that take longer from one point to
// the next than events are kept (Kept). It also lacks virtual nodes, because their logs are
// translated only after a run.
package watch
