// Package mutation breaks a package on purpose and checks that its tests notice. If a rule can be
// removed and no test turns red, no test checks the rule.
//
// A text file beside the tests lists the mutations. The go command's overlay applies each mutation
// while it compiles; the source file does not change. If the text of a mutation no longer occurs in
// its file, the ordinary test fails. So the list stays in step with the code.
package mutation
