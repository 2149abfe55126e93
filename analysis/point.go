package analysis

// The points of an actor that the vocabulary of channels names, in the order in which a tuple passes them. Package channel has the same
// words; TestPointsAreThoseOfChannels holds them together.
var pointOrder = map[string]int{"recv": 1, "start": 2, "end": 3, "send": 4}

// poison is the id that ends a stream.
const poison uint64 = 1<<64 - 1

// point is a place in the program: a channel's name without its instance.
type point struct {
	actor, name string
}

func (p point) String() string { return p.actor + "/" + p.name }
