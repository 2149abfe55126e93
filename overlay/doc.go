// Package overlay is a random regular graph that its nodes maintain. Each node of a fleet has as
// many outgoing as incoming neighbours, drawn from the whole fleet, however many nodes there are.
//
// The package decides who is whose neighbour. It knows no network: the caller passes in a
// [Transport] that sends a [Message], and calls [Node.Receive] for what arrives. It knows no clock:
// the caller passes in the node's own time. It starts no goroutine, so that a simulator and a real
// process drive it alike. It does not encode messages, does not check who sent a message, and does
// not decide what travels along the edges.
//
// The structure is that of KELP, from the thesis of A. Yung (2001), with repairs. Unlike KELP, the
// graph has no central part: a list of contacts replaces KELP's registry, each node has timers of
// its own, and there is no global clock.
//
// # How the graph stays regular
//
// An edge from x to y has two ends, an out of x and an in of y. Only x changes the edge; y believes
// in it as long as x pings. So whatever messages are lost, the two ends agree after a Lease, and a
// fleet always lacks as many outs as ins. An out or an in that a node lacks is a free end of that
// node. What remains is to connect free outs with free ins:
//
//   - Join: a new node has only free ends. It sends walks. Each walk puts the new node, o, into an
//     edge of the node where the walk ends: x→v becomes x→o→v (deal.go, splice).
//
//   - Failure: a node whose neighbour died has a free end. Suppose that node a lacks an out. It
//     sends a walk. If the walk finds a node with a free in, a gets an edge to this node. If the
//     walk finds a node x with a note that b lacks an in, then x→v becomes a→v and x→b (deal.go,
//     join). A node that lacks both an out and an in is put into an edge like a new node.
//
//   - Leave: a node connects its incoming to its outgoing neighbours.
//
//   - Cut: if the fleet falls apart in two, each part repairs itself, and its nodes flag the edges
//     made in the meantime. The nodes also probe neighbours that they lost. Once one of these
//     answers, nodes send walks into the other part. They exchange flagged edges with the nodes
//     where these walks end (deal.go, trade).
//
//   - Parts: a graph of few nodes can fall into parts although no node lacks an edge. To notice
//     that, each node now and then sends a walk, which begins at another node that it knows. If the
//     walk is in a part to which its sender does not belong, the two parts exchange an edge each
//     (parts.go).
//
// A walk takes WalkSteps random steps before it may end, so it ends at each node with the same
// probability. Each step is acknowledged. Without an acknowledgement, the step is repeated, and
// then the walk goes another way. These acknowledgements replace KELP's heartbeats. If a walk is
// lost nevertheless, the node starts another one when the walk's timer ends. The edge that the new
// walk finds is flagged, so that it is replaced later.
//
// # Color
//
// A node says facts about itself ([Node.SetFacts]), which spread over HintLevels levels of
// neighbours and expire (color.go). [Node.Search] walks until a node has a matching fact or a hint
// of one, and asks the node to which the hint belongs. If the search finds no node, its result says
// with which probability it missed one (search.go).
//
// # Heat
//
// A node says how much it has of a few kinds of heat ([Node.SetHeats]), such as dropped events.
// Neighbours pass on how hot the nodes beyond them are. [Node.Climb] sends walks that follow this
// information to the hottest nodes (heat.go).
//
// # Set and queue
//
// KELP also has sets of nodes. Here, color serves as a set: a fact names the set that a node is in,
// and [Node.Search] finds a member.
//
// A queue is for work that many nodes make and few take. As in KELP, each node holds the items that
// it made ([Node.Put]), a taker climbs to nodes with items ([Node.Take]), and each node gives its
// oldest item first. Unlike in KELP, an item stays at its maker until the taker says that the work
// is done ([Node.Finish]). So an item is finished once, and is lost only with its maker. If a taker
// dies, another gets the item (queue.go).
//
// # What hostile nodes can do
//
// limits.go limits what a node keeps and what it passes on, whatever others send. A node that
// breaks a rule is named by [Node.Blamed], and its neighbours give it up after ShunAfter offences.
// An edge is given away only by the node at its beginning, so a liar can give away or refuse
// nothing but its own edges. Requests and walks carry numbers from the node's random stream. So
// only a node that reads these numbers, or guesses the stream, can forge an answer.
//
// Three kinds of harm are not prevented. A node that says that it is very hot attracts climbs,
// which may then miss other hot nodes. But the answers of these climbs name this node. A node that
// accepts more incoming edges than the degree, at most one from each other node, attracts walks.
// For each of its edges beyond the degree, one incoming end of an honest node then stays free. A
// node that takes items and does not work on them delays an item by one lease each time that it
// takes the item; [Config].MayTake says which nodes may take items.
package overlay
