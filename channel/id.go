package channel

import (
	"errors"
	"fmt"
)

// A tuple id consists of three parts, from the highest bit on: the number of the node that made the
// id (14 bits), an instance number on that node (10 bits) and a count (40 bits). So programs can
// make unique ids without communicating. A program may also make ids in its own way, because the
// product gives no meaning to the parts of an id. Only Poison has a meaning.
const (
	MaxNode     = 1<<14 - 1
	MaxInstance = 1<<10 - 1
	MaxCount    = 1<<40 - 1

	nodeShift     = 50
	instanceShift = 40
)

// Poison is the id that ends a stream. NewID never makes Poison.
const Poison uint64 = 1<<64 - 1

// ErrID is returned when a part of a tuple id is out of its range.
var ErrID = errors.New("tuple id out of range")

// NewID makes a tuple id from its parts. The error wraps ErrID.
func NewID(node, instance int, count uint64) (uint64, error) {
	switch {
	case node < 0 || node > MaxNode:
		return 0, fmt.Errorf("make tuple id: node %d is not from 0 to %d: %w", node, MaxNode, ErrID)
	case instance < 0 || instance > MaxInstance:
		return 0, fmt.Errorf("make tuple id: instance %d is not from 0 to %d: %w",
			instance, MaxInstance, ErrID)
	case count > MaxCount:
		return 0, fmt.Errorf("make tuple id: count %d is above %d: %w", count, uint64(MaxCount),
			ErrID)
	}
	id := uint64(node)<<nodeShift | uint64(instance)<<instanceShift | count
	if id == Poison {
		return 0, fmt.Errorf("make tuple id: node %d, instance %d, count %d is the poison id: %w",
			node, instance, count, ErrID)
	}
	return id, nil
}
