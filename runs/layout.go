package runs

import (
	"fmt"
	"path"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// These are the names in a run directory. Paths use '/'.
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

// These are the largest sizes of files that the package reads whole. In a file, a relation takes
// some 200 bytes for each train. In memory, a relation takes several times as many bytes.
const (
	maxRunBytes      = 16 << 20
	maxTableBytes    = 64 << 20
	maxRelationBytes = 256 << 20
	maxTruthBytes    = 64 << 20
)

// RelationPath returns the path of the relation of two nodes in a run.
func RelationPath(a, b string) string {
	return path.Join(relationsDir, pairName(a, b)+relationSuffix)
}

// pairName returns the part of a file's name that names two nodes. If dashes in the nodes' names
// make the name ambiguous, pairName appends the length of the first node's name.
func pairName(a, b string) string {
	name := a + "--" + b
	if strings.Index(name, "--") == len(a) && strings.LastIndex(name, "--") == len(a) {
		return name
	}
	return fmt.Sprintf("%s~%d", name, len(a))
}

// PairPath returns the path of the relation of two nodes in the epochs that a and b name. For the
// first epochs of both nodes, it returns the same as RelationPath. If one of the nodes or epochs is
// not in the run, PairPath returns "".
func (r *Run) PairPath(a, b tscratio.Node) string {
	nodeA, _ := r.Node(a.Name)
	nodeB, _ := r.Node(b.Name)
	return pairPath(a, b, nodeA, nodeB)
}

// pairPath does what PairPath does. It gets the two nodes as they are in the run, or empty.
func pairPath(a, b tscratio.Node, nodeA, nodeB Node) string {
	epochs := [2]int{nodeA.epochNumber(a.Epoch), nodeB.epochNumber(b.Epoch)}
	switch {
	case epochs[0] == 0 || epochs[1] == 0:
		return ""
	case epochs == [2]int{1, 1}:
		return RelationPath(a.Name, b.Name)
	}
	return path.Join(relationsDir,
		fmt.Sprintf("%s@%d-%d%s", pairName(a.Name, b.Name), epochs[0], epochs[1], relationSuffix))
}

// LogsPath returns the path of a node's logs in a run.
func LogsPath(node string) string { return path.Join(logsDir, node) }

// BaselinePath returns the path of the claims of a node's NTP daemon in a run. The file is a log
// with blocks of kind ntp.
func BaselinePath(node string) string { return path.Join(baselinesDir, node+baselineSuffix) }

// TruthPath returns the path of the configuration of a virtual node in a run.
func TruthPath(node string) string { return path.Join(truthDir, node+truthSuffix) }

func checkNode(r *Run, node string) error {
	if _, ok := r.Node(node); !ok {
		return fmt.Errorf("the run has no node %q: add it to the run's nodes first", node)
	}
	return nil
}
