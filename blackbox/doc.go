// Package blackbox is the vocabulary of messages that are seen from outside of the programs that
// exchange them: what one end of a message looks like, and how it is stored.
//
// A message is stored as two consecutive events of the channel [Channel], which is an ordinary
// channel otherwise: its records go through the same ring, drainer and logs as those of programs,
// with the same account of losses. FORMAT.md describes the two events. The bytes of a message are
// never stored, and no part or checksum of them.
//
// The package neither sees messages (package blackbox/capture does) nor matches the two ends of one
// (package blackbox/messages does).
package blackbox
