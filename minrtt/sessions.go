package minrtt

import (
	"bytes"
	"crypto/hmac"
	"net/netip"
	"time"
)

// This file says which probes an answerer takes: under which keys, and of which trains.

// overlap is for how long an answerer takes keys of a secret that it accepts no longer: what is
// under way under them ends well, and who is to know of new ones has heard of them by then.
const overlap = 2 * time.Second

// accepted is a secret that the keys of an answerer's probers may be made from.
type accepted struct {
	Secret           // zero: anybody is answered
	until  time.Time // zero: until Accept says otherwise
}

// Accept says from which secrets the keys are made that the answerer takes from now on. It goes on
// to take those of secrets before for two seconds more. One that answered anybody no longer does,
// at once.
func (a *Answerer) Accept(secrets []Secret) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(secrets) > 0 {
		a.drop(0)
	}
	end := a.transport.Now().Add(overlap)
	for number, s := range a.secrets {
		if number != 0 && s.until.IsZero() {
			s.until = end
		}
	}
	for _, s := range secrets {
		if known := a.secrets[s.Number]; known != nil {
			known.until = time.Time{}
			continue
		}
		a.secrets[s.Number] = &accepted{Secret: s}
	}
}

// drop forgets a secret and all trains under its keys.
func (a *Answerer) drop(number uint64) {
	delete(a.secrets, number)
	for id := range a.sessions {
		if id.secret == number {
			delete(a.sessions, id)
		}
	}
}

// A session is what an answerer knows of one key: the newest train under it. A prober runs one
// train at a time, so that a newer one ends it, and nobody else can.
type session struct {
	codec    *codec
	number   uint64 // of the train. Those of earlier ones are lower, and their packets are replays
	used     time.Time
	peer     netip.AddrPort
	last     uint32 // highest sequence number seen
	previous uint32 // the answer that answered is of
	answered stamp
	opening  clockEnd
}

const (
	// maxSessions is how many keys an answerer remembers at a time, some 1.5 kB each.
	maxSessions = 4096

	// liveFor is how long a train lives without a packet: as long as a prober may wait for an
	// answer. The train that has been silent longest gives way to a new one if it is dead; a live
	// one gives way to none.
	liveFor = maxTimeout
)

// take decodes a packet into a.packet, and returns the session that it belongs to; nil if it is not
// to be answered. Until the packet's code has been checked, all that it costs is to look up two
// numbers and to make the key that it names.
func (a *Answerer) take(b []byte, peer netip.AddrPort) *session {
	p := &a.packet
	if err := parseHeader(b, &p.header); err != nil {
		a.counts.refuse(err)
		return nil
	}
	if p.kind&answerBit != 0 {
		a.counts.Malformed++
		return nil
	}
	secret := a.secretOf(p.key)
	if secret == nil {
		a.counts.Forged++
		return nil
	}
	s := a.sessions[p.key]
	codec := a.codec(secret, s, b)
	if codec == nil {
		a.counts.Forged++
		return nil
	}
	if err := codec.parseBody(b, p); err != nil {
		a.counts.refuse(err)
		return nil
	}
	switch {
	case s == nil || p.session > s.number:
		return a.begin(s, codec, peer)
	case p.session < s.number || p.sequence <= s.last:
		a.counts.Duplicate++
		return nil
	case s.peer != peer:
		a.counts.OtherTrain++
		return nil
	}
	s.last = p.sequence
	return s
}

// secretOf returns the secret that a key is made from, nil if that is not, or no longer, accepted.
func (a *Answerer) secretOf(key keyID) *accepted {
	secret := a.secrets[key.secret]
	if secret != nil && !secret.until.IsZero() && a.transport.Now().After(secret.until) {
		a.drop(key.secret)
		return nil
	}
	return secret
}

// codec returns what reads a packet whose header is in a.packet: the session's; without one, that
// of the key which the packet names, or nil if the packet is not under it.
func (a *Answerer) codec(secret *accepted, s *session, b []byte) *codec {
	switch {
	case s != nil:
		return s.codec
	case secret.Number == 0:
		return newCodec(nil)
	}
	key := secret.Key(a.packet.key.prober)
	end := len(b) - macSize
	if sum := hmacOnce(&key.Bytes, b[:end]); !hmac.Equal(sum[:macSize], b[end:]) {
		return nil
	}
	// a copy, so that the key stays off the heap until here
	return newCodec(bytes.Clone(key.Bytes[:]))
}

// begin begins the train that a.packet opens, in the place of the key's train before, if there is
// one.
func (a *Answerer) begin(s *session, codec *codec, peer netip.AddrPort) *session {
	p := &a.packet
	switch {
	case p.kind != kindOpen:
		a.counts.OtherTrain++
		return nil
	case s == nil && len(a.sessions) == maxSessions && !a.forgetDead():
		a.counts.Crowded++
		return nil
	case s == nil:
		s = &session{}
		a.sessions[p.key] = s
	}
	*s = session{codec: codec, number: p.session, peer: peer, last: p.sequence,
		previous: noSequence}
	return s
}

// forgetDead forgets the train that has been silent longest, unless it is alive.
func (a *Answerer) forgetDead() bool {
	var dead keyID
	oldest := a.transport.Now().Add(-liveFor)
	found := false
	for id, s := range a.sessions {
		if s.used.Before(oldest) {
			dead, oldest, found = id, s.used, true
		}
	}
	if found {
		delete(a.sessions, dead)
	}
	return found
}
