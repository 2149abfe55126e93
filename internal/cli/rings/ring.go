package rings

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/ring"
)

func newRing() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ring",
		Short: "Look at the rings in shared memory, and rescue orphans",
		Long: `Look at the rings in shared memory, and rescue orphans.

A ring is the shared memory of one channel of one program. A ring is live while the program has it
open. When the program has ended, in whatever way, the ring is an orphan. An orphan keeps all of its
events: "list" and "dump" read it, and "salvage" moves its events into a log. These commands need no
agent.`,
		Example: `  cprof ring list
  cprof ring dump parser
  cprof ring salvage --to ./rescued`,
	}
	cmd.AddCommand(newRingList(), newRingDump(), newRingSalvage())
	return cmd
}

// ringFiles lists the rings of a directory. If *dir is empty, ringFiles sets it to the default
// directory.
func ringFiles(dir *string) ([]string, error) {
	if *dir == "" {
		*dir = ring.DefaultDirectory()
	}
	return ring.Files(*dir)
}

// ringState is what "cprof ring list" and "cprof ring dump" show about a ring.
type ringState struct {
	Channel      string `json:"channel"`
	State        string `json:"state"` // live, closed or orphan
	Handler      string `json:"handler"`
	Policy       string `json:"policy"`
	Stamp        string `json:"stamp"`
	Writers      string `json:"writers"` // one or many
	Shards       int    `json:"shards"`
	Capacity     uint64 `json:"capacity_records"`
	Waiting      uint64 `json:"waiting_records"` // records that are not yet safe in a log
	Logged       uint64 `json:"logged_records"`  // since the channel was opened
	Dropped      uint64 `json:"dropped_events"`
	Counted      uint64 `json:"counted_events"`
	BadSettings  bool   `json:"bad_settings"`
	Misuse       bool   `json:"misuse"`
	Opened       string `json:"opened_utc"`
	Process      int    `json:"process"`
	Incarnation  string `json:"incarnation"`
	Path         string `json:"path"`
	openedMoment time.Time
}

func readRingState(r *ring.Reader) (ringState, error) {
	h := r.Header()
	s := ringState{
		Channel: h.Name.String(), Policy: h.Policy.String(), Stamp: h.Stamp.String(),
		Writers: "one", Shards: h.Shards,
		Capacity: h.Records * uint64(h.Shards), Opened: h.OpenedEarliest.Format(time.RFC3339Nano),
		openedMoment: h.OpenedEarliest,
		Process:      h.ProcessID, Incarnation: h.IncarnationText(), Path: r.Path(),
	}
	if h.ManyWriters {
		s.Writers = "many"
	}
	alive, err := r.Alive()
	if err != nil {
		return s, err
	}
	settings, _, err := r.Settings()
	if err != nil {
		return s, err
	}
	s.Handler = settings.String()
	if s.Counted, err = r.Counted(); err != nil {
		return s, err
	}
	var flags uint64
	for i := range h.Shards {
		state, err := r.State(i)
		if err != nil {
			return s, err
		}
		s.Waiting += min(state.Tail-state.Head, h.Records)
		s.Logged += state.Tail
		s.Dropped += state.Dropped
		flags |= state.Flags
	}
	s.BadSettings, s.Misuse = flags&ring.FlagBadSettings != 0, flags&ring.FlagMisuse != 0
	switch {
	case alive:
		s.State = "live"
	case flags&ring.FlagClosed != 0:
		s.State = "closed"
	default:
		s.State = "orphan"
	}
	return s, nil
}

// chooseRing finds the ring that a word means. The word is a file, or the beginning of a channel's
// name or of an incarnation.
func chooseRing(dir, word string) (string, error) {
	if strings.ContainsRune(word, filepath.Separator) {
		if _, err := os.Lstat(word); err == nil {
			return word, nil
		}
	}
	files, err := ringFiles(&dir)
	if err != nil {
		return "", err
	}
	var found []string
	for _, file := range files {
		base := strings.TrimSuffix(filepath.Base(file), ".ring")
		incarnation := filepath.Ext(base)
		name := strings.Replace(strings.TrimSuffix(base, incarnation), "~", "/", 1)
		if strings.HasPrefix(name, word) || strings.HasPrefix(incarnation, "."+word) {
			found = append(found, file)
		}
	}
	switch len(found) {
	case 0:
		return "",
			fmt.Errorf("find ring %q in %q: no channel's name or incarnation starts with that: "+
				"see cprof ring list", word, dir)
	case 1:
		return found[0], nil
	}
	var names strings.Builder
	for _, file := range found {
		names.WriteString("\n  " + filepath.Base(file))
	}
	return "",
		fmt.Errorf("find ring %q in %q: it could be any of %d, give more of the name or the "+
			"incarnation:%s", word, dir, len(found), names.String())
}

// ringEvent is a record or a hole. A hole is a place that was reserved for a record, but never
// written.
type ringEvent struct {
	shard    int
	sequence uint64
	record   ring.Record
	hole     bool
}

// eachEvent calls the function do for every event in a ring, one shard after the other. It reports
// holes only if the ring's owner is dead.
func eachEvent(r *ring.Reader, alive bool, do func(ringEvent) error) error {
	buffer := make([]ring.Record, 4096)
	for i := range r.Header().Shards {
		state, err := r.State(i)
		if err != nil {
			return err
		}
		next := state.Head
		for next < state.Tail {
			first, n, unfinished, err := r.Copy(i, next, buffer)
			if err != nil {
				return err
			}
			for k, record := range buffer[:n] {
				if err := do(ringEvent{shard: i, sequence: first + uint64(k),
					record: record}); err != nil {
					return err
				}
			}
			next = first + uint64(n)
			switch {
			case unfinished && alive:
				// A writer has not finished this record, and nothing after it is visible.
				next = state.Tail
			case unfinished:
				if err := do(ringEvent{shard: i, sequence: next, hole: true}); err != nil {
					return err
				}
				next++
			case n == 0:
				next = state.Tail
			}
		}
	}
	return nil
}

// writeRing prints a ring as plain text: first a description, then one event on each line, and then
// the content of the ring's cells.
func writeRing(w io.Writer, r *ring.Reader) (events uint64, err error) {
	state, err := readRingState(r)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(w, "# channel %s, %s, handler %s, policy %s, stamp %s, writers %s, "+
		"incarnation %s\n", state.Channel, state.State, state.Handler, state.Policy, state.Stamp,
		state.Writers, state.Incarnation)
	fmt.Fprintf(w, "# counter %d was read between %s and %s\n", r.Header().OpenedCounter,
		r.Header().OpenedEarliest.Format(time.RFC3339Nano),
		r.Header().OpenedLatest.Format(time.RFC3339Nano))
	for i := range r.Header().Shards {
		journal, _, err := r.Journal(i)
		if err != nil {
			return 0, err
		}
		for _, e := range journal {
			fmt.Fprintf(w, "# shard %d: handler %s from sequence %d on, counter %d\n",
				i, e.Settings, e.From, e.Counter)
		}
		drops, _, err := r.Drops(i)
		if err != nil {
			return 0, err
		}
		for _, d := range drops {
			fmt.Fprintf(w, "# shard %d: %d events dropped before sequence %d, counter %d to %d\n",
				i, d.Count, d.At, d.FirstCounter, d.LastCounter)
		}
	}
	if state.Counted > 0 {
		fmt.Fprintf(w, "# %d events counted\n", state.Counted)
	}
	cells, err := r.FirstAndLast()
	if err != nil {
		return 0, err
	}
	if cells.Count > 0 {
		fmt.Fprintf(w, "# first-last: %d events, first counter %d id %d, last counter %d id %d\n",
			cells.Count, cells.First.Counter, cells.First.ID, cells.Last.Counter, cells.Last.ID)
	}
	if cells.PoisonCounter != 0 {
		fmt.Fprintf(w, "# first-last: first poison at counter %d\n", cells.PoisonCounter)
	}
	fmt.Fprintf(w, "# shard sequence counter id\n")
	err = eachEvent(r, state.State == "live", func(e ringEvent) error {
		if e.hole {
			_, err := fmt.Fprintf(w, "# shard %d: sequence %d was reserved and never written\n",
				e.shard, e.sequence)
			return err
		}
		events++
		_, err := fmt.Fprintf(w, "%d %d %d %d\n", e.shard, e.sequence, e.record.Counter,
			e.record.ID)
		return err
	})
	return events, err
}
