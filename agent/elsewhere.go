package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/ring"
)

// elsewhere says where programs of other users have rings. CloseRun calls it if no channel logged
// to this agent in the run. Then the program may have run as a user whose rings this agent does not
// drain.
func elsewhere(rings string) (all []string) {
	own := filepath.Clean(rings)
	name, _, found := strings.Cut(filepath.Base(own), "-")
	if !found {
		return nil // rings are not in the usual directory of a user
	}
	beside, err := filepath.Glob(filepath.Join(filepath.Dir(own), name+"-*"))
	if err != nil {
		return nil // the directory's name has characters of a pattern
	}
	for _, dir := range beside {
		if dir == own {
			continue
		}
		files, err := ring.Files(dir)
		if len(files) == 0 && !errors.Is(err, fs.ErrPermission) {
			continue
		}
		all = append(all, fmt.Sprintf("no channel logged here, but another user's programs have "+
			"rings in %q, which this agent does not drain: run an agent as that user, or run the "+
			"program as the agent's user", dir))
	}
	return all
}
