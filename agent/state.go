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

// agentState is what an agent must know about the agents that ran before it. All paths are relative
// to Config.State.
type agentState struct {
	Version int    `json:"version"` // 0 in old files, which have no version
	Logs    string `json:"logs"`    // the directory to which the agent writes logs
	// Before lists earlier directories with logs that the agent may have to continue, the latest
	// first.
	Before []string `json:"before"`
	Run    string   `json:"run"`   // the open run; "": none
	Spans  int      `json:"spans"` // number of times without a run; each has a directory below logs
	// Begun lists the existing directories to which agents wrote logs, in the order in which the
	// agents began these directories. The clock does not show this order, because somebody may set
	// the clock back.
	Begun []string  `json:"begun,omitempty"`
	Since time.Time `json:"since"`
	Saw   uint64    `json:"table_generation"` // generation of the server's table in table.yaml
}

// begunIndex returns the index in Begun of dir, or of a directory below dir. It returns -1 if dir
// is from an agent that did not note the order.
func (s agentState) begunIndex(dir string) int {
	return slices.IndexFunc(s.Begun, func(logs string) bool {
		return logs == dir || strings.HasPrefix(logs, dir+string(filepath.Separator))
	})
}

// keptBefore is the largest number of directories in Before after the agent has moved all logs. The
// agent searches these directories for a ring's old log. While a disk fails, the agent keeps all
// directories in Before, because each of them may have a log to be continued.
const keptBefore = 8

// stateVersion is the version of the state file.
const stateVersion = 1

const (
	stateFile  = "state.json"
	tableFile  = "table.yaml"
	lockFile   = "agent.lock"
	logsFolder = "logs"
	runsFolder = "runs"
)

// maxStateBytes is larger than any state file can be, even with the names of all runs that an agent
// keeps.
const maxStateBytes = 16 << 20

func readState(dir string) (agentState, error) {
	s := agentState{Logs: spanDirectory(0)}
	text, err := plainfile.ReadOwn(filepath.Join(dir, stateFile), maxStateBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("read the state of the agent before this one: %w", err)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("read the state of the agent before this one from %q: %w: remove "+
			"the file if it is damaged: the agent then writes new logs, in %q",
			filepath.Join(dir, stateFile), err,
			spanDirectory(0))
	}
	if s.Version > stateVersion {
		return s, fmt.Errorf("read the state of the agent before this one from %q: version %d: "+
			"this agent knows versions up to %d: install the release that wrote the file, or a "+
			"later one", filepath.Join(dir, stateFile), s.Version, stateVersion)
	}
	for _, path := range append([]string{s.Logs}, s.Before...) {
		if !filepath.IsLocal(path) {
			return s, fmt.Errorf("read the state of the agent before this one from %q: the "+
				"directory of logs %q is not below %q: remove the file",
				filepath.Join(dir, stateFile), path, dir)
		}
	}
	return s, nil
}

// spanDirectory returns the directory of logs for the n-th period without a run. Each such period
// has its own directory.
func spanDirectory(n int) string { return filepath.Join(logsFolder, fmt.Sprintf("%06d", n)) }

// write replaces the state file as a whole. If the agent dies during the call, the old file stays.
func (s agentState) write(dir string) error {
	s.Version = stateVersion
	text, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return err
	}
	return plainfile.Replace(filepath.Join(dir, stateFile), append(text, '\n'))
}

// movedTo returns the state after the agent begins to write logs to another directory. The call
// there(directory) reports whether a directory still exists.
func (s agentState) movedTo(logs string, there func(logs string) bool) agentState {
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

// afterMove returns the state after the agent has moved every log to the present directory.
func (s agentState) afterMove() agentState {
	s.Before = s.Before[:min(len(s.Before), keptBefore)]
	return s
}
