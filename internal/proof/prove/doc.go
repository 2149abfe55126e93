// Command prove runs every proof of the product and reports which bars were reached.
//
//	go run ./internal/proof/prove                          small, to the terminal: make bars
//	go run ./internal/proof/prove -size full -record DIR   at full size, into a record: make prove
//	go run ./internal/proof/prove -only 'log call'         some proofs, by their names
//
// The exit code is 0 if all bars were reached, 1 if a bar was missed, 2 if the command line is
// wrong, and 3 if all measured bars were reached but some bars could not be measured. The proofs
// run one after another, because each proof requires the whole machine.
//
// Package internal/proof defines what a bar is and how it is recorded. This command contains the
// list of commands that report bars, and the code that runs these commands. It measures nothing
// itself.
package main
