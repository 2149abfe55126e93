// Package mutation breaks a package on purpose and wants its tests to notice: if a rule can be
// removed and no test turns red, no test guards that rule.
//
// Mutations are listed in a text file beside the tests. Each is applied to the source as it is
// compiled, by the go command's overlay, and never to the file. A mutation whose text no longer
// occurs fails the ordinary test, so the list follows the code.
package mutation
