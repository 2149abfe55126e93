package runs

import (
	"fmt"
	"path"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
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

// The most that is read of a file at once. A relation takes some 200 bytes a train, and in memory some times that.
const (
	maxRunBytes      = 4 << 20
	maxTableBytes    = 64 << 20
	maxRelationBytes = 256 << 20
	maxTruthBytes    = 64 << 20
)

// RelationPath is where the stored pair of two nodes lies in a run.
func RelationPath(a, b string) string { return path.Join(relationsDir, pairName(a, b)+relationSuffix) }

// pairName is that of two nodes in a file's name. Where their names hold dashes enough to be those
// of two others as well, the length of the first says which they are.
func pairName(a, b string) string {
	name := a + "--" + b
	if strings.Index(name, "--") == len(a) && strings.LastIndex(name, "--") == len(a) {
		return name
	}
	return fmt.Sprintf("%s~%d", name, len(a))
}

// PairPath is where a pair lies in the run: at RelationPath where it is of the first epoch of both nodes. "": one of them is not of the run.
func (r *Run) PairPath(a, b tscratio.Node) string {
	var epochs [2]int
	for i, n := range []tscratio.Node{a, b} {
		node, _ := r.Node(n.Name)
		epochs[i] = node.epochNumber(n.Epoch)
	}
	switch {
	case epochs[0] == 0 || epochs[1] == 0:
		return ""
	case epochs == [2]int{1, 1}:
		return RelationPath(a.Name, b.Name)
	}
	return path.Join(relationsDir, fmt.Sprintf("%s@%d-%d%s", pairName(a.Name, b.Name), epochs[0], epochs[1], relationSuffix))
}

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
