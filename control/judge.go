package control

import (
	"errors"
	"fmt"

	"github.com/pebbe/zmq4"
)

// maxFrames is the number of frames of a message that the server reads. Messages of this version
// have at most three frames. Later versions may have more.
const maxFrames = 8

// readFrames reads the frames of a message that follow the frame with the peer's routing id. The
// caller has read that frame. If the message is too long, readFrames returns its first frame and
// tooLong, so that decode refuses the message.
func (s *Server) readFrames() (frames [][]byte, properties map[string]string, err error) {
	// Only the frames after the routing id have properties.
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
	s.flows.noteDelivered(properties[fdProperty], bytes)
	if bytes > MaxMessageBytes && len(frames) > 0 {
		frames = [][]byte{frames[0], tooLong}
	}
	return frames, properties, err
}

// If a message is too long, tooLong replaces all frames after its first one.
var tooLong = make([]byte, MaxMessageBytes+1)

// maxSmall is the largest length of a message, except for the kinds for which mayBeLarge returns
// true.
const maxSmall = 2 * MaxFactsBytes

// mayBeLarge reports whether messages of this kind may be longer than maxSmall.
func mayBeLarge(k Kind) bool {
	switch k {
	case KindTrains, KindRunState, KindFiles, KindChunk, KindAsk:
		return true
	}
	return false
}

// sender says where a message comes from, and what its sender may do.
type sender struct {
	peer       Peer
	key        Key
	address    string
	registered bool
	asks       bool // the sender may ask questions
}

func (s *Server) refuse(from sender, request uint64, reason Reason, code Code, text string) {
	s.refused.add(reason, "message refused", "peer", from.peer,
		"address", from.address, "key", from.key.Name, "why", text)
	s.reply(from.peer, request, Refuse(code, text))
}

func (s *Server) reply(peer Peer, request uint64, m Message) {
	if encoded, err := encode(m, request, s.speaks); err == nil {
		s.put(outgoingItem{peer: peer, frames: encoded, request: request})
	}
}

// judgeMessage passes a message to Receive, or refuses it.
func (s *Server) judgeMessage(g *gate, peer Peer, frames [][]byte, properties map[string]string) {
	from := sender{peer: peer, address: properties["Peer-Address"]}
	if s.zap != nil {
		var listed bool
		if from.key, listed = s.zap.keyOf(properties["User-Id"]); !listed {
			s.refused.add(ReasonKey, "key is not on the list any more",
				"peer", peer, "address", from.address)
			s.noteConnection(peer, properties["User-Id"], properties[fdProperty])
			s.cutPeer(peer)
			return
		}
	}
	s.noteConnection(peer, from.key.Public, properties[fdProperty])
	// The routing ids that ZeroMQ assigns have five bytes, and the first is 0. A peer that chooses
	// another id may pretend to be an earlier peer.
	if len(peer) != 5 || peer[0] != 0 {
		s.refuse(from, 0, ReasonIdentity, Malformed, "a client must not choose its routing id")
		return
	}
	s.mu.Lock()
	from.registered = s.registered[peer]
	s.mu.Unlock()
	from.asks = s.zap == nil || from.key.Role == RoleAdmin
	bytes := size(frames)
	if bytes > maxSmall && len(frames) > 0 { // decode no large message of an unknown peer
		h, err := decodeHeader(frames[0])
		if err == nil &&
			(!mayBeLarge(h.kind) || !from.registered && !(h.kind == KindAsk && from.asks)) {
			s.refuse(from, h.request, ReasonTooLarge, TooLarge,
				fmt.Sprintf("%s of %d bytes, more than %d", h.kind, bytes, maxSmall))
			return
		}
	}
	m, request, err := decode(frames, s.speaks)
	if err != nil {
		reason, code := reasonOf(err)
		s.refuse(from, request, reason, code, err.Error())
		return
	}
	if !s.isForReceive(g, from, request, m) {
		return
	}
	s.queued.Add(int64(bytes))
	// The channel has room: drain has checked that, and only this goroutine adds to the channel.
	s.incoming <- Incoming{
		Peer: peer, Key: from.key, Request: request, Message: m, bytes: int64(bytes),
	}
}

// isForReceive reports whether a message is for Receive. If it is not, isForReceive has dealt with
// the message.
func (s *Server) isForReceive(g *gate, from sender, request uint64, m Message) bool {
	switch m := m.(type) {
	case *Hello:
		s.reply(from.peer, request, &Challenge{g.challenge(from.peer)})
		return false
	case *Register:
		if !g.admit(from.peer, m.Nonce) {
			s.refuse(from, request, ReasonReplayed, Replayed,
				"registration answers no open challenge of this connection: say hello first")
			return false
		}
		s.mu.Lock()
		s.registered[from.peer] = true
		s.mu.Unlock()
		s.mayEnd(from.peer, false)
	case *Ask, *ReadFile:
		if !from.asks {
			s.refuse(from, request, ReasonRole, NotAllowed, fmt.Sprintf("key %q has role %q: "+
				"questions need one of role %q (\"cprof keys client --admin\")",
				from.key.Name, from.key.Role, RoleAdmin))
			return false
		}
		if !from.registered {
			s.mayEnd(from.peer, true)
		}
	case *Leave, *Refusal:
		// An unregistered peer has nothing to leave, and the server has asked it for nothing that
		// it could refuse. The peer gets no answer, because nobody answers a Leave or a Refusal.
		if !from.registered {
			s.refused.add(ReasonUnregistered, "message refused", "peer", from.peer,
				"kind", m.Kind())
			return false
		}
		if m.Kind() == KindLeave {
			s.mayEnd(from.peer, true)
		}
	case *Ping, *Pong, *Done, *Load, *Trains, *RunState, *TableState, *Files, *Chunk,
		*Snapshot, *SnapshotState, *Sample, *Neighbours:
		if !from.registered {
			s.refuse(from, request, ReasonUnregistered, NotRegistered,
				fmt.Sprintf("%s from a peer that is not registered", m.Kind()))
			return false
		}
	default:
		s.refuse(from, request, ReasonKind, UnknownKind,
			fmt.Sprintf("a server takes no %s", m.Kind()))
		return false
	}
	return true
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
