// Package house contains rules that this repository sets itself and that no compiler checks: which
// package may import what, what every package says about itself, how files look, and that the links
// and commands in documents exist.
//
// The package contains only tests, which plain "go test" runs. A rule is a function from a file
// tree to findings. Each rule is tested on small trees: in some it must find a fault, in others it
// must not. Rules read text. They need no network and no build, and they examine the files of every
// platform and every build tag. The import table is in table_test.go. Two tests are not rules. One
// builds a program of another module, to find out which modules such a program needs. The other
// checks that the embedded pages were built from their present source.
package house
