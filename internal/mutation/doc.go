// Package mutation breaks a package on purpose and wants its tests to notice: a rule that can be left out without a test
// turning red is a rule that no test holds.
//
// Mutations are listed in a text file beside the tests. Each is applied to the source as it is compiled, by the go command's
// overlay, and never to the file; a mutation whose text no longer occurs fails the ordinary test, so that the list follows
// the code.
package mutation
