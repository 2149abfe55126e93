package ring

import (
	"github.com/cloudprofiler/cloudprofiler/channel"
)

// JournalEntry describes a change of settings.
type JournalEntry struct {
	Word     Word
	Settings channel.Settings // the settings that the program adopted when it saw the word
	// From is the sequence number of the first record under these settings. If there are many
	// writers, a few later records may still be under the earlier settings, because some calls were
	// in progress during the change.
	From    uint64
	Counter uint64 // the counter at the change
	Dropped uint64 // number of events dropped before the change
	Skipped uint64 // number of changes directly before this one that have no entry in the journal
}

// Journal returns the entries that are not yet in the log. The second result is the number of
// entries that are already in the log. Journal leaves the newest entry out while the program writes
// it. If the program died during the write, the entry is left out forever.
func (r *Reader) Journal(i int) (entries []JournalEntry, before uint64, err error) {
	page := r.shards[i]
	var written, taken, tail uint64
	var table [JournalSize]journalEntry
	still := false
	err = guard(func() {
		for range readAttempts {
			taken = load(&page.consumer.journal)
			written = load(&page.producer.journal)
			whole := true
			for k := range table {
				var ok bool
				table[k], ok = page.journal[k].load()
				whole = whole && ok
			}
			tail = load(&page.producer.tail)
			// If the drainer took entries during this reading, the program may have overwritten
			// them.
			if still = whole && taken == load(&page.consumer.journal); still {
				break
			}
		}
	})
	if err != nil {
		return nil, 0, r.failed(err)
	}
	if !still {
		return nil, 0, r.damaged("shard %d: the journal does not stand still", i)
	}
	if taken > written || written-taken > JournalSize {
		return nil, 0, r.damaged("shard %d: %d journal entries, %d of them taken",
			i, written, taken)
	}
	place := uint64(0)
	for k := taken; k < written; k++ {
		e := table[k%JournalSize]
		if e.word == 0 && k == written-1 {
			break
		}
		settings := channel.Settings{Kind: channel.Kind(e.kind), A: e.a, B: e.b}
		switch err := settings.Validate(); {
		case e.word == 0:
			return nil, 0, r.damaged("shard %d: journal entry %d has no word", i, k)
		case e.kind > 0xFF:
			return nil, 0, r.damaged("shard %d: journal entry %d with kind %d", i, k, e.kind)
		case err != nil:
			return nil, 0, r.damaged("shard %d: journal entry %d: %v", i, k, err)
		case e.from < place || e.from > tail:
			return nil, 0, r.damaged("shard %d: journal entry %d from sequence %d, after one "+
				"from %d, tail %d", i, k, e.from, place, tail)
		}
		place = e.from
		entries = append(entries, JournalEntry{
			Word: Word(e.word), Settings: settings, From: e.from, Counter: e.counter,
			Dropped: e.dropped, Skipped: e.skipped,
		})
	}
	return entries, taken, nil
}

// load copies an entry. It returns false if the entry changed during the copy.
func (e *journalEntry) load() (journalEntry, bool) {
	word := load(&e.word)
	got := journalEntry{word: word, kind: load(&e.kind), a: load(&e.a), b: load(&e.b),
		from: load(&e.from), counter: load(&e.counter), dropped: load(&e.dropped),
		skipped: load(&e.skipped)}
	return got, load(&e.word) == word
}
