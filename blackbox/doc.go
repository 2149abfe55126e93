// Package blackbox describes messages between programs, as they are seen from outside of the
// programs. It says what is known of one end of a message, and how that is stored.
//
// Each end of a message is stored as two consecutive events of the channel [Channel]. In all other
// ways, Channel is an ordinary channel: its events go through a ring, the drainer and logs, like
// events of programs, and lost events are counted in the same way. FORMAT.md describes the two
// events. No bytes of a message are ever stored. Of a datagram, a checksum is stored.
//
// Package blackbox/capture sees the messages. Package blackbox/messages matches the two ends of
// each.
package blackbox
