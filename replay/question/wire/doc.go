// Package wire has the messages between cprof and the program cprof-question: a condition with the
// events of a replay, and the order that was found. cprof-question is a separate program, because
// the implementation of the expression language would make cprof larger by a seventh.
//
// The messages are JSON, and each says its version. Both programs are of one release, so each
// refuses messages of another version. Package replay/question has the language and the search.
package wire
