package control

import (
	"log/slog"
	"maps"
	"sync"
	"time"
)

// Reason is the word under which the link counts and logs a refusal.
type Reason string

const (
	ReasonMalformed    Reason = "malformed"    // not a message
	ReasonVersion      Reason = "version"      // message of a version that differs too much
	ReasonKind         Reason = "kind"         // kind unknown, or not accepted from this peer
	ReasonTooLarge     Reason = "too_large"    // message longer than MaxMessageBytes
	ReasonUnregistered Reason = "unregistered" // message from a peer that must register first
	ReasonReplayed     Reason = "replayed"     // registration that answers no open challenge
	ReasonKey          Reason = "key"          // connection with a key that is not on the list
	ReasonRole         Reason = "role"         // question from a key that may not ask
	ReasonHandshake    Reason = "handshake"    // no key, a wrong key, or too slow
	ReasonDisconnected Reason = "disconnected" // connection that died, or was cut for what it sent
	ReasonUnsent       Reason = "unsent"       // message to a peer that is gone or accepts nothing
	ReasonIdentity     Reason = "identity"     // peer that chose its own routing id
)

// Reasons lists every reason, in the order of FORMAT.md.
var Reasons = []Reason{
	ReasonMalformed, ReasonVersion, ReasonKind, ReasonTooLarge, ReasonUnregistered, ReasonReplayed,
	ReasonKey, ReasonRole, ReasonHandshake, ReasonDisconnected, ReasonUnsent, ReasonIdentity,
}

// refusals counts refusals, and logs each reason at most once a second. Any goroutine may use it.
type refusals struct {
	log *slog.Logger

	mu     sync.Mutex
	counts map[Reason]uint64
	logged map[Reason]time.Time
	silent map[Reason]uint64 // number of refusals since the reason was last logged
}

func newRefusals(log *slog.Logger) *refusals {
	return &refusals{
		log: log, counts: map[Reason]uint64{}, logged: map[Reason]time.Time{},
		silent: map[Reason]uint64{},
	}
}

func (r *refusals) add(reason Reason, text string, attrs ...any) {
	now := time.Now()
	r.mu.Lock()
	r.counts[reason]++
	loud := now.Sub(r.logged[reason]) >= time.Second
	silent := r.silent[reason]
	if loud {
		r.logged[reason], r.silent[reason] = now, 0
	} else {
		r.silent[reason]++
	}
	r.mu.Unlock()
	if loud && r.log != nil {
		attrs = append(attrs, "reason", string(reason))
		if silent > 0 {
			attrs = append(attrs, "unlogged", silent)
		}
		r.log.Warn(text, attrs...)
	}
}

func (r *refusals) all() map[Reason]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.counts)
}
