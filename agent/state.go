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

// state is what an agent must know about its predecessor. All paths are below Config.State.
type state struct {
	Logs string `json:"logs"` // where logs are written
	// Before lists where logs may have been left that will be continued, the latest first.
	Before []string `json:"before"`
	Run    string   `json:"run"`   // the open run; "": none
	Spans  int      `json:"spans"` // times without a run, each with a directory below logs
	// Begun lists the directories that logs have gone to and that are still there, in order. The
	// clock cannot give the order, because it may be set back.
	Begun []string  `json:"begun,omitempty"`
	Since time.Time `json:"since"`
	Saw   uint64    `json:"table_generation"` // of the server's table in table.yaml
}

// begun returns the index in Begun of a directory, or of one below it. It returns -1 if logs went
// there before the order was noted.
func (s state) begun(dir string) int {
	return slices.IndexFunc(s.Begun, func(logs string) bool {
		return logs == dir || strings.HasPrefix(logs, dir+string(filepath.Separator))
	})
}

// keptBefore is how many directories are searched for a ring's old log, once all logs have been
// moved. While a disk fails, a log may be left in any directory of Before.
const keptBefore = 8

const (
	stateFile  = "state.json"
	tableFile  = "table.yaml"
	lockFile   = "agent.lock"
	logsFolder = "logs"
	runsFolder = "runs"
)

// maxStateBytes is more than the names of all runs that an agent keeps.
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
		return s, fmt.Errorf("read what the last agent was at in %q: %w: if it is damaged, "+
			"remove it: logs begin anew in %q", filepath.Join(dir, stateFile), err, span(0))
	}
	for _, path := range append([]string{s.Logs}, s.Before...) {
		if !filepath.IsLocal(path) {
			return s, fmt.Errorf("read what the last agent was at in %q: %q is not below it: "+
				"remove the file", filepath.Join(dir, stateFile), path)
		}
	}
	return s, nil
}

// span returns where logs go in a time without a run. No directory is written to twice.
func span(n int) string { return filepath.Join(logsFolder, fmt.Sprintf("%06d", n)) }

// write replaces the file as a whole. If the agent dies meanwhile, the old one stays.
func (s state) write(dir string) error {
	text, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return err
	}
	return plainfile.Replace(filepath.Join(dir, stateFile), append(text, '\n'))
}

// to returns the state with logs going elsewhere. there says which of the directories in Before
// have not been removed.
func (s state) to(logs string, there func(logs string) bool) state {
	if logs == s.Logs {
		return s
	}
	s.Begun = append(slices.DeleteFunc(slices.Clone(s.Begun), func(d string) bool {
		return d == logs || !there(d)
	}), logs)
	gone := func(d string) bool { return d == s.Logs || d == logs || !there(d) }
	s.Before = append([]string{s.Logs}, slices.DeleteFunc(slices.Clone(s.Before), gone)...)
	s.Logs = logs
	return s
}

// moved returns the state in which every log has been continued where logs go now.
func (s state) moved() state {
	s.Before = s.Before[:min(len(s.Before), keptBefore)]
	return s
}
