// Package house contains the rules that this repository sets itself and that no compiler checks:
// which package may import what, what every package states about itself, how files look, and that
// the links and commands in documents exist.
//
// The package contains only tests, and plain "go test" runs them. A rule is a function from a file
// tree to findings. Each rule is tested on small trees in which it must, and must not, find
// something. Rules read text. They require no network and no build, and they see the files of every
// platform and every build tag. The import table is in table_test.go. One test is not a rule: it
// builds a program of another module, to see what such a program gets.
package house
