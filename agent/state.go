package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
)

// state is what an agent must know of the one before it. All paths are below Config.State.
type state struct {
	Logs   string    `json:"logs"`            // where logs are written
	Before []string  `json:"before"`          // where logs may have been left that are to be gone on with, the latest first
	Run    string    `json:"run"`             // that is open; "": none
	Spans  int       `json:"spans"`           // times without a run, each with a directory below logs
	Begun  []string  `json:"begun,omitempty"` // directories that logs have gone to and that are still there, in that order: the clock may be set back
	Since  time.Time `json:"since"`
	Saw    uint64    `json:"table_generation"` // of the server's table in table.yaml
}

// begun is the place in Begun of a directory, or of one below it; -1: logs went there before that was written down.
func (s state) begun(dir string) int {
	return slices.IndexFunc(s.Begun, func(logs string) bool { return logs == dir || strings.HasPrefix(logs, dir+string(filepath.Separator)) })
}

// keptBefore is how many directories of logs are looked through for where a ring's log was left, once
// all logs have been moved. While a disk fails, one may be left in any directory of before.
const keptBefore = 8

const (
	stateFile  = "state.json"
	tableFile  = "table.yaml"
	lockFile   = "agent.lock"
	logsFolder = "logs"
	runsFolder = "runs"
)

// maxStateBytes is more than names of all runs that an agent keeps.
const maxStateBytes = 16 << 20

func readState(dir string) (state, error) {
	s := state{Logs: span(0)}
	text, err := plainfile.ReadOwn(filepath.Join(dir, stateFile), maxStateBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("read what the last agent was at: %w", err)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("read what the last agent was at in %q: %w: if it is damaged, remove it: logs begin anew in %q", filepath.Join(dir, stateFile), err, span(0))
	}
	for _, path := range append([]string{s.Logs}, s.Before...) {
		if !filepath.IsLocal(path) {
			return s, fmt.Errorf("read what the last agent was at in %q: %q is not below it: remove the file", filepath.Join(dir, stateFile), path)
		}
	}
	return s, nil
}

// span is where logs go at a time without a run, so that no directory is written to twice.
func span(n int) string { return filepath.Join(logsFolder, fmt.Sprintf("%06d", n)) }

// write replaces the file as a whole: who dies meanwhile leaves the old one.
func (s state) write(dir string) error {
	text, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return err
	}
	return plainfile.Replace(filepath.Join(dir, stateFile), append(text, '\n'))
}

// to is the state with logs going elsewhere. there says which of the directories of before are not removed meanwhile.
func (s state) to(logs string, there func(logs string) bool) state {
	if logs == s.Logs {
		return s
	}
	s.Begun = append(slices.DeleteFunc(slices.Clone(s.Begun), func(d string) bool { return d == logs || !there(d) }), logs)
	gone := func(d string) bool { return d == s.Logs || d == logs || !there(d) }
	s.Before = append([]string{s.Logs}, slices.DeleteFunc(slices.Clone(s.Before), gone)...)
	s.Logs = logs
	return s
}

// moved is the state when every log that was left has been gone on with where logs go now.
func (s state) moved() state {
	s.Before = s.Before[:min(len(s.Before), keptBefore)]
	return s
}
