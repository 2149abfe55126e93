package ring

import (
	"github.com/cloudprofiler/cloudprofiler/channel"
)

// unknownKind is a handler kind that exists in no version, so the check of settings refuses it.
const unknownKind = channel.Kind(0xFF)

// readAttempts is the largest number of times that a program or a drainer reads the same data, if
// the other changes the data each time. If both are honest, a few attempts are enough.
const readAttempts = 10_000

// load returns the settings that the switching word points to. It does not check them. If the word
// contradicts its slot, or changes during every attempt, the method load returns settings that fail
// every check.
func (c *control) load(word *uint64) (channel.Settings, Word) {
	var w Word
	for range readAttempts {
		w = Word(load(word))
		settings := c.slot[w.slot()%slots].load()
		// The drainer writes only to a slot that the word does not point to. So if the word has not
		// changed, the slot has not changed either.
		if Word(load(word)) != w {
			continue
		}
		if settings.Kind != w.Kind() || w.slot() >= slots {
			settings.Kind = unknownKind
		}
		return settings, w
	}
	return channel.Settings{Kind: unknownKind}, w
}

func (s *slot) load() channel.Settings {
	kind := min(load(&s.kind), uint64(unknownKind))
	return channel.Settings{Kind: channel.Kind(kind), A: load(&s.a), B: load(&s.b)}
}
