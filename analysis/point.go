package analysis

// pointOrder numbers the four usual points of an actor in the order in which a tuple passes them.
// Package channel defines these points, and TestPointsAreThoseOfChannels compares the two.
var pointOrder = map[string]int{"recv": 1, "start": 2, "end": 3, "send": 4}

// poison is the id that ends a stream.
const poison uint64 = 1<<64 - 1

// point is a place in the program: a channel's name without its instance.
type point struct {
	actor, name string
}

func (p point) String() string { return p.actor + "/" + p.name }
