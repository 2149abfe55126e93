// Package messages finds the two ends of each captured message: the call that sent it, and the call
// that received it.
//
//	answer, err := messages.Of(run, messages.Options{})
//
// Two sockets are the ends of one TCP connection if both know the sequence numbers with which its
// two streams began. TCP chose these numbers at random. So it does not matter which addresses the
// two ends see, or whether earlier connections had these addresses. Within a stream, a message is
// received by the call that took its last byte (match.go). Nothing is guessed: if a message's place
// in its stream is not exactly known, the message gets no other end, and is counted with the
// reason.
//
// The ends of a UNIX connection know each other, and the sizes of the messages say which call
// received which (unix.go). Datagrams are found by their checksums (datagram.go).
//
// The time from the beginning of the sending call to the moment when the receiving call has the
// last byte is the message's transfer. It is an interval in cycles of one node, and contains the
// truth like every duration of a run (answer.go).
//
// The function Of keeps all messages of a run in memory. A message that was captured at both ends
// takes about 340 bytes of the process's memory, of which about 200 are in use. Package
// blackbox/paths reads the logs with a Store, which moves calls to a temporary file if there are
// too many (store.go).
package messages
