package control

import (
	"errors"
	"fmt"

	"github.com/pebbe/zmq4"
)

// maxFrames is the number of frames of a message that are read. Later versions may have more than
// this version's three.
const maxFrames = 8

// frames reads the frames of a message that follow the frame with the peer's id. If the message is
// too long, frames keeps only the first frame, and adds tooLong so that decode refuses the message.
func (s *Server) frames() (frames [][]byte, properties map[string]string, err error) {
	// The frame with the peer's id has no properties; the frames after it have them.
	frame, properties, err := s.router.RecvBytesWithMetadata(
		zmq4.DONTWAIT, "User-Id", "Peer-Address", fdProperty)
	bytes := 0
	for ; err == nil; frame, err = s.router.RecvBytes(zmq4.DONTWAIT) {
		if bytes += len(frame); bytes <= MaxMessageBytes && len(frames) < maxFrames {
			frames = append(frames, frame)
		}
		var more bool
		if more, err = s.router.GetRcvmore(); err != nil || !more {
			break
		}
	}
	s.flows.took(properties[fdProperty], bytes)
	if bytes > MaxMessageBytes && len(frames) > 0 {
		frames = [][]byte{frames[0], tooLong}
	}
	return frames, properties, err
}

// tooLong replaces the frames of a message that is too long.
var tooLong = make([]byte, MaxMessageBytes+1)

// maxSmall is the largest length of a message of a kind that is not large.
const maxSmall = 2 * MaxFactsBytes

// large reports whether a message of this kind may be longer than maxSmall.
func large(k Kind) bool {
	switch k {
	case KindTrains, KindRunState, KindFiles, KindChunk, KindAsk:
		return true
	}
	return false
}

// judge passes a message to Receive, or refuses it.
func (s *Server) judge(g *gate, peer Peer, frames [][]byte, properties map[string]string) {
	var key Key
	if s.zap != nil {
		var listed bool
		if key, listed = s.zap.key(properties["User-Id"]); !listed {
			s.refused.add(ReasonKey, "key is not on the list any more",
				"peer", peer, "address", properties["Peer-Address"])
			s.note(peer, properties["User-Id"], properties[fdProperty])
			s.cut(peer)
			return
		}
		s.note(peer, key.Public, properties[fdProperty])
	}
	refuse := func(request uint64, reason Reason, code Code, text string) {
		s.refused.add(reason, "message refused", "peer", peer,
			"address", properties["Peer-Address"], "key", key.Name, "why", text)
		if encoded, err := encode(Refuse(code, text), request, s.speaks); err == nil {
			s.put(outgoing{peer: peer, frames: encoded, request: request})
		}
	}
	// ZeroMQ's own ids have this form. Any other id was chosen by the peer, perhaps to pose as an
	// earlier peer.
	if len(peer) != 5 || peer[0] != 0 {
		refuse(0, ReasonIdentity, Malformed, "a client must not choose its routing id")
		return
	}
	s.mu.Lock()
	registered := s.registered[peer]
	s.mu.Unlock()
	asks := s.zap == nil || key.Role == RoleAdmin
	bytes := size(frames)
	if bytes > maxSmall && len(frames) > 0 { // do not decode much for an unknown peer
		h, err := decodeHeader(frames[0])
		if err == nil && (!large(h.kind) || !registered && !(h.kind == KindAsk && asks)) {
			refuse(h.request, ReasonTooLarge, TooLarge,
				fmt.Sprintf("%s of %d bytes, more than %d", h.kind, bytes, maxSmall))
			return
		}
	}
	m, request, err := decode(frames, s.speaks)
	if err != nil {
		reason, code := reasonOf(err)
		refuse(request, reason, code, err.Error())
		return
	}
	switch m := m.(type) {
	case *Hello:
		if encoded, err := encode(&Challenge{g.challenge(peer)}, request, s.speaks); err == nil {
			s.put(outgoing{peer: peer, frames: encoded, request: request})
		}
		return
	case *Register:
		if !g.admit(peer, m.Nonce) {
			refuse(request, ReasonReplayed, Replayed,
				"registration answers no open challenge of this connection: say hello first")
			return
		}
		s.mu.Lock()
		s.registered[peer] = true
		s.mu.Unlock()
	case *Ask:
		if !asks {
			refuse(request, ReasonRole, NotAllowed, fmt.Sprintf("key %q has role %q: "+
				"questions need one of role %q (\"cprof keys client --admin\")",
				key.Name, key.Role, RoleAdmin))
			return
		}
	case *Leave, *Refusal:
		if !registered { // it has nothing to leave, and a refusal is never answered
			s.refused.add(ReasonUnregistered, "message refused", "peer", peer, "kind", m.Kind())
			return
		}
	case *Ping, *Pong, *Done, *Load, *Trains, *RunState, *TableState, *Files, *Chunk,
		*Snapshot, *SnapshotState:
		if !registered {
			refuse(request, ReasonUnregistered, NotRegistered,
				fmt.Sprintf("%s from a peer that is not registered", m.Kind()))
			return
		}
	default:
		refuse(request, ReasonKind, UnknownKind, fmt.Sprintf("a server takes no %s", m.Kind()))
		return
	}
	s.queued.Add(int64(bytes))
	// The channel has room: drain has checked, and no other goroutine adds to the channel.
	s.incoming <- Incoming{
		Peer: peer, Key: key, Request: request, Message: m, bytes: int64(bytes),
	}
}

func reasonOf(err error) (Reason, Code) {
	switch {
	case errors.Is(err, ErrVersion):
		return ReasonVersion, WrongVersion
	case errors.Is(err, ErrKind):
		return ReasonKind, UnknownKind
	case errors.Is(err, ErrTooLarge):
		return ReasonTooLarge, TooLarge
	}
	return ReasonMalformed, Malformed
}
