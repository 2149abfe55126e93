// Package mutation breaks a package on purpose and expects its tests to notice: if a rule can be
// removed and no test turns red, no test guards that rule.
//
// Mutations are listed in a text file beside the tests. The go command's overlay applies each to
// the source as it is compiled, and the file stays as it is. A mutation whose text no longer occurs
// fails the ordinary test, so the list follows the code.
package mutation
