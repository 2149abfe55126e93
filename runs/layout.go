package runs

import (
	"fmt"
	"path"
)

// What lies where in a run directory. Paths use '/'.
const (
	runFile        = "run.yaml"
	tableFile      = "table.yaml"
	relationsDir   = "relations"
	logsDir        = "logs"
	baselinesDir   = "baselines"
	truthDir       = "truth"
	exportsDir     = "exports"
	reportFile     = "report.html"
	relationSuffix = ".rel"
	baselineSuffix = ".ntp"
	truthSuffix    = ".json"
)

// The most that is read of a file at once.
const (
	maxRunBytes      = 4 << 20
	maxTableBytes    = 64 << 20
	maxRelationBytes = 1 << 30
	maxTruthBytes    = 64 << 20
)

// RelationPath is where the stored pair of two nodes lies in a run.
func RelationPath(a, b string) string { return path.Join(relationsDir, a+"--"+b+relationSuffix) }

// LogsPath is where the logs of a node lie in a run.
func LogsPath(node string) string { return path.Join(logsDir, node) }

// BaselinePath is where what a node's NTP daemon claimed lies in a run: a log with blocks of kind ntp.
func BaselinePath(node string) string { return path.Join(baselinesDir, node+baselineSuffix) }

// TruthPath is where the configuration of a virtual node lies in a run.
func TruthPath(node string) string { return path.Join(truthDir, node+truthSuffix) }

func checkNode(r *Run, node string) error {
	if _, ok := r.Node(node); !ok {
		return fmt.Errorf("node %q is not one of the run's: add it to its nodes first", node)
	}
	return nil
}
