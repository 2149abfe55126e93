// Package link says for each call between programs which received call caused it, with a
// probability.
//
//	for _, l := range link.Learnt.Link(seen) { … }
//
// Several methods stand side by side behind the interface [Method], so that they can be compared on
// data of which the truth is known. Judge compares.
package link
