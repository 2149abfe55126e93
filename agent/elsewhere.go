package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// searchElsewhere looks into other directories of rings, which this agent does not drain. The
// programs with these rings run as another user, or were told to use another directory. logged has
// the channels that logged to this agent in the run. owner returns the user who owns a directory.
// The result has one text for each directory that contains rings of channels that logged nothing to
// this agent.
//
// If any channel logged to this agent, the result names only directories of other users, and only
// if no agent drains them. This user's programs may use other directories on purpose, for example
// for tests.
func searchElsewhere(rings string, logged map[string]bool,
	owner func(string) uint32) (all []string) {
	own := filepath.Clean(rings)
	name, _, found := strings.Cut(filepath.Base(own), "-")
	if !found {
		return nil // rings are not in the usual directory of a user
	}
	beside, err := filepath.Glob(filepath.Join(filepath.Dir(own), name+"-*"))
	if err != nil {
		return nil // the directory's name is not a valid pattern
	}
	for _, dir := range beside {
		if dir == own {
			continue
		}
		files, err := ring.Files(dir)
		channels, foreign := notLogged(files, logged), owner(dir) != owner(own)
		what := "no channel logged here"
		switch {
		case len(logged) == 0 && (len(files) > 0 || errors.Is(err, fs.ErrPermission)):
		case len(channels) == 0 || !foreign || hasAgent(dir):
			continue
		default:
			what = shortList(channels) + " logged nothing here"
		}
		who, remedy := "other programs", "set CLOUDPROFILER_DIR of the programs to "+own
		if foreign {
			who = "programs of user " + plainfile.UserName(owner(dir))
			remedy = "run an agent as that user, or run the programs as the agent's user"
		}
		all = append(all, fmt.Sprintf("%s, but %s have or had rings in %q, which this agent does "+
			"not drain: %s", what, who, dir, remedy))
	}
	return all
}

// ownerOf returns the user who owns a directory, or 0 if that is not known.
func ownerOf(dir string) uint32 {
	if info, err := os.Lstat(dir); err == nil {
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			return s.Uid
		}
	}
	return 0
}

// notLogged returns, sorted, the channels that have a ring but are not among the logged channels.
func notLogged(files []string, logged map[string]bool) (channels []string) {
	for _, file := range files {
		stem := filepath.Base(file)
		for range 2 { // the file's name ends in the incarnation and the suffix
			stem = strings.TrimSuffix(stem, filepath.Ext(stem))
		}
		if name, err := channel.ParseFileStem(stem); err == nil && !logged[name.String()] {
			channels = append(channels, name.String())
		}
	}
	slices.Sort(channels)
	return slices.Compact(channels)
}

// hasAgent reports whether another agent drains the rings of a directory.
func hasAgent(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, SocketName))
	return err == nil
}

// shortList names a few channels, and says how many others there are.
func shortList(names []string) string {
	const most = 3
	if n := len(names) - most; n > 0 {
		return fmt.Sprintf("%s and %d more channels", strings.Join(names[:most], ", "), n)
	}
	return strings.Join(names, ", ")
}
