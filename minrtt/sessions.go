package minrtt

import (
	"bytes"
	"crypto/hmac"
	"net/netip"
	"time"
)

// This file decides which probes an answerer accepts: under which keys, and in which trains.

// overlapTime is the time for which an answerer still accepts keys derived from a withdrawn secret.
// In this time, current trains can end, and probers can receive their new keys.
const overlapTime = 2 * time.Second

// acceptedSecret is a secret that the answerer accepts: it answers packets under keys derived from
// this secret.
type acceptedSecret struct {
	Secret           // zero if the answerer answers any prober
	until  time.Time // end of acceptance; zero: until the next Accept
}

// Accept makes the answerer accept keys derived from these secrets. It accepts keys derived from
// earlier secrets for two more seconds. Without secrets, an answerer answers any prober. As soon as
// it has a secret, it requires keys.
func (a *Answerer) Accept(secrets []Secret) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(secrets) > 0 {
		a.dropSecret(0)
	}
	end := a.transport.Now().Add(overlapTime)
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
		a.secrets[s.Number] = &acceptedSecret{Secret: s}
	}
}

// dropSecret removes a secret, and all trains under keys derived from it.
func (a *Answerer) dropSecret(number uint64) {
	delete(a.secrets, number)
	for id := range a.sessions {
		if id.secret == number {
			delete(a.sessions, id)
		}
	}
}

// A session is an answerer's state for one key: the newest train. A prober runs one train at a
// time, so a newer train ends the previous one. No other prober can end the train.
type session struct {
	codec    *codec
	number   uint64 // number of the train; packets with a lower number are replays
	used     time.Time
	peer     netip.AddrPort
	last     uint32 // highest sequence number in the train so far
	previous uint32 // sequence number of the answer to which the stamp answered belongs
	answered stamp
	opening  clockEnd
	shared   sharedReport
}

const (
	// maxSessions is the largest number of keys for which an answerer stores a session of some 2
	// kB.
	maxSessions = 4096

	// liveFor is how long a train stays alive without a packet: the longest time for which a prober
	// may wait for an answer. If a new train needs room, it replaces the train that has been silent
	// longest, but only if that train is dead. A live train can be replaced only by a train of the
	// same prober.
	liveFor = maxTimeout
)

// takePacket decodes a packet into a.packet and returns its session. If the packet must not be
// answered, takePacket returns nil. A packet with a wrong code costs only two look-ups, one derived
// key and one check.
func (a *Answerer) takePacket(b []byte, peer netip.AddrPort) *session {
	p := &a.packet
	if err := parseHeader(b, &p.header); err != nil {
		a.counts.countRefused(err)
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
	codec := a.codecOf(secret, s, b)
	if codec == nil {
		a.counts.Forged++
		return nil
	}
	if err := codec.parseBody(b, p); err != nil {
		a.counts.countRefused(err)
		return nil
	}
	switch {
	case s == nil || p.session > s.number:
		return a.beginTrain(s, codec, peer)
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

// secretOf returns the secret from which a key is derived. If the answerer does not accept that
// secret, or no longer does, secretOf returns nil.
func (a *Answerer) secretOf(key keyID) *acceptedSecret {
	secret := a.secrets[key.secret]
	if secret != nil && !secret.until.IsZero() && a.transport.Now().After(secret.until) {
		a.dropSecret(key.secret)
		return nil
	}
	return secret
}

// codecOf returns the codec for the packet whose header is in a.packet. If there is a session, it
// returns the session's codec. If not, it derives the key that the packet names, and returns nil if
// the packet's code does not match that key.
func (a *Answerer) codecOf(secret *acceptedSecret, s *session, b []byte) *codec {
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
	// Copy the bytes. If the codec referred to key itself, key would be on the heap even for
	// packets that fail the check above.
	return newCodec(bytes.Clone(key.Bytes[:]))
}

// beginTrain begins the train that a.packet opens. If the key has a previous train, beginTrain
// replaces it.
func (a *Answerer) beginTrain(s *session, codec *codec, peer netip.AddrPort) *session {
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

// forgetDead removes the train that has been silent longest, if that train is dead. It reports
// whether it removed a train.
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
