package overlay

import "time"

// These are periods of the graph. They determine how fast the graph notices and repairs damage, so
// they must be the same on all nodes. With them a graph of 10,000 nodes whose links lose 5 % of all
// messages is regular again within a minute after half of its nodes died.
const (
	// PingPeriod is the time between two pings along an edge whose other end answers. With seven
	// edges in each direction, a node sends about four messages a second: pings and answers.
	PingPeriod = 4 * time.Second
	// PingRetry is the time after which an unanswered ping is repeated. It is longer than a round
	// trip around the earth.
	PingRetry = 500 * time.Millisecond
	// PingTries is the number of unanswered pings after which a node is considered gone. If links
	// lose 5 % of all messages, a tenth of all round trips fail, and eight in a row fail once in
	// 10⁸ times. In a fleet of 10,000 nodes this happens less than once an hour.
	PingTries = 8
	// Lease is how long a node believes in an incoming edge along which no ping arrives. If no ping
	// arrives for this time, the other end has died, or has repeated a ping eight times in vain.
	Lease = PingPeriod + PingRetry*PingTries + time.Second
	// AskRetry is the time after which an unanswered request is repeated.
	AskRetry = 250 * time.Millisecond
	// If a request was sent AskTries times without an answer, its receiver is considered gone. If
	// links lose 5 % of all messages, this is wrong once in 10¹⁰ times.
	AskTries = 10
	// HopTries is the number of tries for the request that passes a walk on. It is smaller than
	// AskTries, because a walk can go another way.
	HopTries = 3
	// GrantLife is how long a node goes on pinging a promised neighbour that does not know of the
	// edge yet. In this time, two requests can use up all their tries.
	GrantLife = 2 * AskRetry * AskTries
	// WalkLife is how long a node waits for the end of a walk. It suffices for SeekScan steps of 40
	// ms each, and for some steps that are repeated.
	WalkLife = 20 * time.Second
	// AloneWait is how long a node that lacks edges in only one direction waits before it sends a
	// walk. When a neighbour dies, a node may lose its edge in one direction up to five seconds
	// before the edge in the other. One short walk repairs an edge in each direction at once, so
	// waiting often saves a long walk.
	AloneWait = 4 * time.Second
	// SeekPause is the longest pause after a walk in vain, except in two cases. If walks get lost,
	// perhaps because there are too many, the pause may grow to LostPause. If there are few nodes,
	// it may grow to FewPause: in a fleet of fewer than degree + 1 nodes, all walks are in vain. A
	// node that lacks edges in one direction only is not in such a fleet, so it pauses less than
	// WantLife, and finds the notes of nodes that lack edges in the other direction.
	SeekPause = time.Second
	LostPause = 8 * time.Second
	FewPause  = 2 * time.Minute
	// After a change of its edges, a node looks for another part of the graph within CheckSoon, and
	// then again and again. Each pause is CheckGrowth times as long as the previous one, up to
	// CheckPeriod. Then the walks cost about one percent of a node's messages.
	CheckSoon   = 5 * time.Second
	CheckGrowth = 8
	CheckPeriod = 10 * time.Minute
	// RepickPeriod is the time between two walks that replace flagged neighbours.
	RepickPeriod = 10 * time.Second
	// LostPeriod is the time between two probes of lost nodes. If a fleet that was cut in two
	// becomes whole again, nodes notice that within two such periods.
	LostPeriod = 5 * time.Second
	// If SuspectFailures neighbours fail within SuspectWindow, a node suspects that the fleet is
	// cut in two. A wrong suspicion costs little: each new edge gets a flag.
	SuspectFailures = 2
	SuspectWindow   = time.Minute
)

// These limits restrict what other nodes can make a node keep or do. Each limits memory or
// messages, whatever other nodes send.
const (
	// MaxName is the length in bytes of the longest name. A host's name has at most 253 bytes.
	MaxName = 255
	// MaxDegree is the largest degree of a node. It also bounds the lists of neighbours in
	// messages. KELP's degrees are 7 and 9.
	MaxDegree = 32
	// WalkSteps is the number of random steps of a walk. Even in a fleet of a million nodes, the
	// place of a walk after these steps is nearly independent of the place where it began. With
	// degree 7, the probabilities of the n possible places have a relative variance of n/7^h after
	// h steps. This variance is 0.004 after 10 steps for n = 10⁶, and 0.002 after 8 steps for n =
	// 10⁴.
	WalkSteps = 10
	// MaxMix and MaxScan are the largest numbers of steps that a node accepts in a walk. With more
	// steps, one message could cause many others. WalkSteps may grow to MaxMix without a new
	// protocol.
	MaxMix  = 32
	MaxScan = SeekScan
	// SeekScan is how many nodes the walk of a free end visits after its WalkSteps random steps. If
	// the walks of a free out and of a free in visit k of n nodes each, they miss each other with
	// probability exp(-k²/n): 0.1 % for 10,000 nodes. In a larger fleet, an end may need several
	// walks.
	SeekScan = 256
	// A walk ends after SeekRevisits visits to nodes where it has been before, if these are most of
	// its visits: the fleet must then be small.
	SeekRevisits = 8
	// A walk that looks for another part of the graph ends as soon as it has made at least
	// CheckScan visits, and fewer than one in CheckScan went to a node where it had been before.
	// The part around it then has dozens of nodes, so it is not a small part that split off.
	CheckScan = 12
	// TradeScan is how many nodes a walk visits to find an edge to exchange. Almost every edge can
	// be exchanged, unless the fleet is hardly larger than the degree.
	TradeScan = 16
	// MaxAsked is the largest number of a node's requests that wait for answers.
	MaxAsked = 512
	// A node remembers requests, so that it does not obey a repeated request twice. MaxRecent is
	// the largest number of requests that it remembers. With degree 7, a node accepts this number
	// of walks from its incoming neighbours and from strangers in eight seconds, and in a burst
	// sooner. RecentLife is how long a node remembers a request: twice the time during which its
	// sender repeats the request.
	MaxRecent  = 256
	RecentLife = 2 * AskRetry * AskTries
	// MaxWants is the largest number of notes that a node keeps about edges that other nodes lack.
	// WantLife is how long it keeps a note.
	MaxWants = 128
	WantLife = 30 * time.Second
	// MaxFailures is the largest number of failures whose times a node keeps. More of them would
	// tell nothing more about a cut.
	MaxFailures = 2 * MaxDegree
	// MaxLost is the largest number of lost nodes whose names a node keeps. MaxKnown is the largest
	// number of other nodes whose names it keeps. If all its neighbours are gone, the node begins
	// again with one of these nodes.
	MaxLost  = 32
	MaxKnown = 32
	// WalksPerSecond and WalksBurst limit the walks that a node accepts from one neighbour, and
	// those that it accepts from all strangers together. So in the long run, a node passes on at
	// most WalksPerSecond walks a second for each neighbour, and as many for all strangers
	// together, whatever others send. The limits leave room for repairs: after half of a fleet
	// died, a neighbour passes on two walks a second for ten seconds, and then fewer.
	WalksPerSecond = 4
	WalksBurst     = 200
	// If a node sends more than FloodFactor times as many walks as it may, it is blamed for a
	// flood. The factor protects honest nodes that pass on the walks of a flood: such a node sends
	// at most about twice as many walks as it may.
	FloodFactor = 4
	// ShunAfter is the number of offences after which a node's neighbours give the node up. The
	// neighbours want no edge with the node until ShunTime has passed since its last offence. A
	// single offence is not enough, because it may be bad luck: perhaps the node died in the middle
	// of a deal.
	ShunAfter = 8
	ShunTime  = 10 * time.Minute
	// MaxFact is the largest size of a fact and of a pattern, in bytes. MaxFacts is the largest
	// number of a node's facts: its role, kernel, clock source and some channels.
	MaxFact  = 128
	MaxFacts = 32
	// MaxHintsVia is the largest number of hints that a node keeps from one neighbour. In HintLife,
	// a neighbour passes on the hints of degree + 1 owners, so there is room for all of them up to
	// degree 15. A repeated hint takes no room.
	MaxHintsVia = 16
	// HintLevels is how far facts spread: with degree 7 and two levels, 57 nodes hold a fact.
	HintLevels = 2
	// AdvertisePeriod is the time after which a node spreads its facts again, which costs 56
	// messages each time. A fact is forgotten after HintLife, so two lost messages in a row do no
	// harm.
	AdvertisePeriod = 30 * time.Second
	HintLife        = 3 * AdvertisePeriod
	// MaxSearches is the largest number of a node's open searches. SearchRounds is the number of
	// walks of a search. In 99 % of searches among 10,000 nodes, four walks of 257 nodes each find
	// the only node that has a fact.
	MaxSearches  = 16
	SearchRounds = 4
	// A search that has found nothing ends once the probability that it missed a node with the fact
	// is at most SureMissed. In a small fleet, further steps would only use up the walks that nodes
	// accept.
	SureMissed = 1e-9
	// MaxDenied is the largest number of hints that may prove false on one walk. After that, the
	// walk uses no hints, and only asks the nodes that it visits.
	MaxDenied = 16
	// MaxHeats is the largest number of kinds of heat that a node keeps of itself, and of each
	// neighbour.
	MaxHeats = 4
	// HeatPeriod is the time between two messages about heat to each incoming neighbour. If a path
	// heat changes by a quarter, the next message is sent earlier, but not before HeatPause has
	// passed since the last one. A path heat is forgotten after HeatLife, so two lost messages in a
	// row do no harm.
	HeatPeriod = 20 * time.Second
	HeatPause  = time.Second
	HeatLife   = 3 * HeatPeriod
	// HeatWalks is the number of walks of one call of Climb. HeatScan is the largest number of
	// steps of each walk after its random steps. If the heats have not changed since nodes last
	// told their path heats, no walk needs more steps than the graph's diameter, which is 7 for
	// 10,000 nodes.
	HeatWalks = 16
	HeatScan  = 32
	// TakeLease is how long a taker holds an item unless it renews the lease. TakeRenew is the time
	// between two renewals. It is so short that one lost renewal does no harm.
	TakeLease = 20 * time.Second
	TakeRenew = TakeLease / 3
	// TakeWait is how long a taker waits for the walks of one climb if some get lost. A walk takes
	// at most WalkSteps random steps, and then the steps to a hot node.
	TakeWait = 3 * time.Second
	// MaxItems is the largest number of items that a node has for takers. MaxHeld is the largest
	// number of items that a node has taken or looks for.
	MaxItems = 4096
	MaxHeld  = 8
	// MaxBlamed is the largest number of rule breakers whose names a node keeps.
	MaxBlamed = 64
)
