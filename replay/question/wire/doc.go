// Package wire is what cprof and the program cprof-question tell each other: a condition with the
// events of a replay, and the order that was found. cprof-question is a separate program, because
// the expression language would make cprof larger by a seventh.
//
// The package only has the messages, as JSON. The two programs are of one build, so the messages
// have no version. Package replay/question has the language and the search.
package wire
