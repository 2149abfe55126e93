// Command prove runs every proof of the product and reports which bars were reached.
//
//	go run ./internal/proof/prove                          small, to the terminal: make bars
//	go run ./internal/proof/prove -size full -record DIR   at full size, into a record: make prove
//	go run ./internal/proof/prove -only 'log call'         some of them, by their names
//
// Its exit code is 0 if all bars were reached, 1 if one was missed, 2 on wrong usage, and 3 if all
// measured bars were reached but some could not be measured. The proofs run one after the other,
// because each requires the whole machine.
//
// Package proof, above this one, defines what a bar is and how it is recorded. Here are the list of
// commands that report bars, and the code that runs these commands. Nothing is measured here.
package main
