// Package link finds, for each call between programs, which received call caused it, and how
// probable this is.
//
//	for _, l := range link.Methods[0].Link(seen) { … } // by the product's own method
//
// A [Stream] links calls while they come, in bounded memory.
//
// Several methods implement the interface [Method]. Judge compares their links with the truth, for
// data of which the truth is known.
package link
