// Package mutation breaks a package on purpose and expects its tests to notice: if a rule can be
// removed and no test turns red, no test guards that rule.
//
// Mutations are listed in a text file beside the tests. The go command's overlay applies each
// mutation to the source as it is compiled; the file itself is not changed. A mutation whose text
// no longer occurs in its file fails the ordinary test, so the list follows the code.
package mutation
