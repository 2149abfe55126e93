package ring

import (
	"github.com/cloudprofiler/cloudprofiler/channel"
)

// unknownKind is no kind of any version: the check of settings refuses it.
const unknownKind = channel.Kind(0xFF)

// patience is how often one end reads again what the other changed meanwhile. A few times do for an honest one.
const patience = 10_000

// load reads the settings that the switching word points to. They are unchecked; a word that contradicts its slot, or does
// not stand still, gives settings that no check passes.
func (c *control) load() (channel.Settings, Word) {
	var w Word
	for range patience {
		w = Word(load(&c.word))
		settings := c.slot[w.slot()%slots].load()
		// A slot is written again only when no word points to it: if the word still stands, so did the slot.
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
