package overlay

import "time"

// Periods of the graph. They bound how fast the graph notices and repairs, so they are the same on
// all nodes. With them a graph of 10,000 nodes whose links lose 5 % of all messages is regular
// again within a minute after half of its nodes died.
const (
	// PingPeriod is the time between two pings along an edge that is well. Seven edges then cost a
	// node four messages a second.
	PingPeriod = 4 * time.Second
	// PingRetry is the time after which an unanswered ping is repeated. It is longer than a round
	// trip around the earth.
	PingRetry = 500 * time.Millisecond
	// PingTries unanswered pings mean that a node is gone. If links lose 5 %, a round trip fails
	// in 10 %, and eight in a row fail once in 10⁸: less than once in an hour of 10,000 nodes.
	PingTries = 8
	// Lease is how long a node believes in an incoming edge without a ping along it. The other end
	// has then either died or repeated its ping eight times.
	Lease = PingPeriod + PingRetry*PingTries + time.Second
	// AskRetry is the time after which an unanswered request is repeated.
	AskRetry = 250 * time.Millisecond
	// AskTries requests without answer mean that a node is gone: once in 10¹⁰ by loss of 5 %.
	AskTries = 10
	// HopTries is less than AskTries, because a walk can go another way.
	HopTries = 3
	// GrantLife is how long a node pings a promised neighbour that does not know of the edge yet:
	// the time of two requests that need all their tries.
	GrantLife = 2 * AskRetry * AskTries
	// WalkLife is how long a node waits for a walk: SeekScan steps at 40 ms, and some repetitions.
	WalkLife = 20 * time.Second
	// AloneWait is how long a node with free ends of only one direction waits before it seeks. The
	// two ends of an edge notice a death up to five seconds apart, and a node that lacks both
	// directions is repaired by one short walk.
	AloneWait = 4 * time.Second
	// SeekPause is the longest pause after a walk in vain. It grows to LostPause if walks get lost,
	// perhaps because there are too many, and to FewPause if there are few nodes: in a fleet of
	// fewer than degree + 1 nodes all walks are in vain.
	SeekPause = time.Second
	LostPause = 8 * time.Second
	FewPause  = 2 * time.Minute
	// RepickPeriod is the time between two walks that replace flagged neighbours.
	RepickPeriod = 10 * time.Second
	// LostPeriod is the time between two probes of lost nodes: a fleet that was cut in two is
	// noticed to be whole again within two of them.
	LostPeriod = 5 * time.Second
	// SuspectFailures failures in SuspectWindow raise the suspicion that the fleet is cut in two.
	// A wrong suspicion costs one flag for each new edge.
	SuspectFailures = 2
	SuspectWindow   = time.Minute
)

// Limits of what others can make a node keep or do. Each bounds memory or messages, whatever other
// nodes send.
const (
	// MaxName is the longest name in bytes: a host's name has at most 253.
	MaxName = 255
	// MaxDegree bounds the lists in messages. The paper's degrees are 7 and 9.
	MaxDegree = 32
	// WalkSteps makes the end of a walk nearly independent of its start in a fleet of a million
	// nodes: ln(n / 0.002) / ln 7 = 10.3 for n = 10⁶, and 8 for n = 10⁴.
	WalkSteps = 10
	// MaxMix and MaxScan are the most steps that a node accepts in a walk. More would let one
	// message cost many. WalkSteps may grow to MaxMix without a new protocol.
	MaxMix  = 32
	MaxScan = SeekScan
	// SeekScan is how many further nodes the walk of a free end visits. Free ends of opposite
	// directions that visit k nodes each miss each other with probability exp(-k²/n): 0.1 % for
	// 10,000 nodes. A larger fleet needs several walks.
	SeekScan = 256
	// SeekRevisits visits to nodes that a walk has seen end it, if they are most of its visits: the
	// fleet is small.
	SeekRevisits = 8
	// TradeScan is how many nodes a walk visits to find an edge to exchange. Almost every edge is
	// possible, unless the fleet is hardly larger than the degree.
	TradeScan = 16
	// MaxAsked bounds the requests of a node that wait for answers.
	MaxAsked = 512
	// MaxRecent is how many requests a node remembers, so as not to obey a repeated one twice:
	// those of two seconds, at the rate at which it accepts walks.
	MaxRecent = 256
	// MaxWants bounds the notes about free ends of other nodes, and WantLife their age.
	MaxWants = 128
	WantLife = 30 * time.Second
	// MaxFailures bounds the times that a node keeps: more say no more about a cut.
	MaxFailures = 2 * MaxDegree
	// MaxLost and MaxKnown bound the names that a node keeps of nodes that are gone, and of nodes
	// that it saw: names to begin again with, if all neighbours are gone.
	MaxLost  = 32
	MaxKnown = 32
	// WalksPerSecond and WalksBurst bound the walks that a node accepts from one neighbour, and
	// from all strangers together. After half of a fleet died, a neighbour passes on two walks a
	// second for ten seconds, and then fewer. So walks cost a node at most WalksPerSecond × (degree
	// + 1) messages a second for long, whatever others send.
	WalksPerSecond = 4
	WalksBurst     = 200
	// FloodFactor is how many times as many walks a node must send to be named. Honest nodes pass
	// on what a flood brings to them, which is at most about as much as they may.
	FloodFactor = 4
	// ShunAfter offences make a node's neighbours give it up, for ShunTime since the last. One
	// false promise may be bad luck: the node died while it dealt.
	ShunAfter = 8
	ShunTime  = 10 * time.Minute
	// MaxBlamed bounds the names of nodes that broke a rule.
	MaxBlamed = 64
)
