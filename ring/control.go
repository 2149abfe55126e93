package ring

import (
	"github.com/cloudprofiler/cloudprofiler/channel"
)

// unknownKind is a kind of no version. The check of settings refuses it.
const unknownKind = channel.Kind(0xFF)

// patience is how often one end reads again what the other end changed during the reading. If the
// other end is honest, a few readings are enough.
const patience = 10_000

// load returns the settings that the switching word points to, unchecked. If the word contradicts
// its slot, or changes during every attempt, load returns settings that fail every check.
func (c *control) load() (channel.Settings, Word) {
	var w Word
	for range patience {
		w = Word(load(&c.word))
		settings := c.slot[w.slot()%slots].load()
		// The drainer writes only to a slot that the word does not point to. So if the word has not
		// changed, the slot has not changed either.
		if Word(load(&c.word)) != w {
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
