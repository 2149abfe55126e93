package ring

import (
	"github.com/cloudprofiler/cloudprofiler/channel"
)

// unknownKind is a kind of no version. The check of settings refuses it.
const unknownKind = channel.Kind(0xFF)

// patience is how often one end rereads what the other has changed. An honest one needs a few
// readings.
const patience = 10_000

// load reads the settings that the switching word points to. They are unchecked. If a word
// contradicts its slot, or does not stand still, load returns settings that pass no check.
func (c *control) load() (channel.Settings, Word) {
	var w Word
	for range patience {
		w = Word(load(&c.word))
		settings := c.slot[w.slot()%slots].load()
		// A slot is written again only when no word points to it. If the word did not change,
		// neither did the slot.
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
