// Command prove runs every proof of the product and says which bars were reached.
//
//	go run ./internal/proof/prove                           small, to the terminal: make bars
//	go run ./internal/proof/prove -size full -record DIR    at full size, into a dated record: make prove
//	go run ./internal/proof/prove -only 'log call'          some of them, by their names
//
// It exits with 0 if all bars were reached, 1 if one was missed, 2 on wrong usage, 3 if all that could be measured were
// reached but some could not. The proofs run one after the other, as each wants the machine for itself.
//
// Package proof, above this one, knows what a bar is and how it is recorded. Here is the list of the commands that report bars, and what runs
// them; nothing is measured here.
package main
