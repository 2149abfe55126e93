package drain

import (
	"errors"
	"fmt"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// ErrRefused is the error that Options.Notify and Stats report if the handler table gives a channel
// a handler that it cannot have.
var ErrRefused = errors.New("channel cannot take the handler")

// setSettings writes into the ring the settings that the handler table gives it. It does so once
// for each table.
func (s *source) setSettings() error {
	table := s.d.table.Load()
	if table == nil || table == s.table {
		return nil
	}
	rule, ok := table.For(s.d.o.Node, s.header.Name)
	want := rule.Settings
	if !ok {
		want = s.own
	}
	if want.Kind != channel.Null && (want.Kind == channel.Link) != (s.kind == logstore.Links) {
		s.table = table
		err := fmt.Errorf("set handler %s on %s: link is chosen when a channel is opened, and "+
			"never later: change the handler table's rule: %w", want, s.header.Name, ErrRefused)
		s.d.notify(err)
		s.count(func(c *RingStats) { c.Refused = err })
		return nil
	}
	if want != s.settings {
		// The program writes a journal entry for every change. Wait until the journal has room, so
		// that the program overwrites no entry.
		for i := range s.places {
			entries, _, err := s.ring.Journal(i)
			if err != nil {
				return err
			}
			if len(entries) >= ring.JournalSize-2 {
				return nil // try again at the next tick
			}
		}
		if _, err := s.ring.Apply(want); err != nil {
			return err
		}
	}
	s.table = table
	s.rate.setRate(rule.Rate_hz)
	s.count(func(c *RingStats) { c.Refused = nil })
	return s.readSettings()
}
