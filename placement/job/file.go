package job

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
	"github.com/cloudprofiler/cloudprofiler/internal/similar"
	"github.com/cloudprofiler/cloudprofiler/placement"
)

// ErrFile is returned for a file that cannot be used.
var ErrFile = errors.New("bad job file")

// Version is the version of the files that this package reads.
const Version = 1

const (
	maxFileBytes = 64 << 20
	maxFindings  = 20
	maxInstances = 1000
	maxNumber    = 1e15
)

// File is what a job file says.
type File struct {
	// Job has no latencies until Connect is called. Each instance of an operator is a separate
	// operator in Job.
	Job placement.Job

	// Now says where the operators run today. It is nil if the file does not say it.
	Now placement.Placement

	Latencies []Latency
	Local     placement.Range // the latency between two operators of one node
}

// Latency is how long a tuple travels from one node to another.
type Latency struct {
	From, Into string
	placement.Range
}

// Read parses the file at path. See Parse.
func Read(path string, fleet func() ([]placement.Node, error)) (*File, error) {
	text, err := plainfile.Read(path, maxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("read job: %w", err)
	}
	return Parse(text, path, fleet)
}

// Parse reads a job. Errors contain the file's name. If the file lists no nodes, Parse gets them
// from the last parameter, which is a function. If that is nil, Parse assumes one large node, and
// every name of a node in the file means that node. If the file has mistakes, the returned error
// joins one error for each mistake, up to maxFindings. Each of these errors has a line number and
// wraps ErrFile.
func Parse(text []byte, name string, fleet func() ([]placement.Node, error)) (*File, error) {
	p := parser{name: name, file: &File{}, instances: map[string][]int{}, node: map[string]int{},
		fleet: fleet}
	p.document(text)
	if len(p.firstMistakes) > 0 {
		return nil, errors.Join(p.firstMistakes...)
	}
	return p.file, nil
}

// parser collects the mistakes in a file.
type parser struct {
	name  string
	file  *File
	fleet func() ([]placement.Node, error)

	anyNode       bool    // no nodes are known, so no name of a node is wrong
	firstMistakes []error // the first maxFindings mistakes

	instances map[string][]int // by operator: its instances, as indices of Job.Operators
	node      map[string]int   // by name: the index in Job.Nodes
}

func (p *parser) fail(line int, format string, args ...any) {
	if len(p.firstMistakes) < maxFindings {
		p.firstMistakes = append(p.firstMistakes, fmt.Errorf("read job %q: line %d: %w: %w", p.name,
			line,
			fmt.Errorf(format, args...), ErrFile))
	}
}

func (p *parser) document(text []byte) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	switch err := decoder.Decode(&document); {
	case err == io.EOF:
		p.fail(1, "it is empty: begin with %q", "version: 1")
		return
	case err != nil:
		line := 1
		what := strings.TrimPrefix(err.Error(), "yaml: ")
		if n, _ := fmt.Sscanf(what, "line %d:", &line); n == 1 {
			_, what, _ = strings.Cut(what, ": ")
		}
		p.fail(line, "%s", what)
		return
	}
	root := document.Content[0]
	top := p.mapping(root, "the job", "version", "operators", "edges", "nodes", "latencies",
		"local", "now")
	if top == nil {
		return
	}
	if v := top["version"]; v == nil || v.Value != strconv.Itoa(Version) {
		p.fail(root.Line, "no version %d: begin with %q", Version, "version: 1")
		return
	}
	if top["nodes"] == nil {
		p.takeFleet()
	} else {
		for _, n := range p.list(top["nodes"], root, "nodes") {
			p.addNode(n)
		}
	}
	for _, n := range p.list(top["operators"], root, "operators") {
		p.addOperator(n)
	}
	if top["edges"] != nil {
		for _, n := range p.list(top["edges"], root, "edges") {
			p.addEdges(n)
		}
	}
	if n := top["local"]; n != nil {
		p.file.Local = p.readTimes(n, "local")
	}
	if top["latencies"] != nil {
		for _, n := range p.list(top["latencies"], root, "latencies") {
			p.addLatency(n)
		}
	}
	if top["now"] != nil {
		p.now(top["now"])
	}
}

func (p *parser) takeFleet() {
	if p.fleet == nil {
		p.anyNode = true
		p.file.Job.Nodes = []placement.Node{{Cores: maxNumber, Speed: 1}}
		return
	}
	nodes, err := p.fleet()
	if err != nil {
		p.firstMistakes = append(p.firstMistakes,
			fmt.Errorf("read job %q: no nodes in the file: %w", p.name, err))
		return
	}
	for i, n := range nodes {
		p.node[n.Name] = i
	}
	p.file.Job.Nodes = nodes
}

func (p *parser) addNode(n *yaml.Node) {
	f := p.mapping(n, "a node", "name", "cores", "speed")
	if f == nil {
		return
	}
	node := placement.Node{Name: p.word(f["name"], n, "name"), Speed: 1,
		Cores: p.number(f["cores"], n, "cores")}
	if f["speed"] != nil {
		node.Speed = p.number(f["speed"], n, "speed")
	}
	if _, twice := p.node[node.Name]; twice {
		p.fail(n.Line, "node %q is listed twice", node.Name)
		return
	}
	p.node[node.Name] = len(p.file.Job.Nodes)
	p.file.Job.Nodes = append(p.file.Job.Nodes, node)
}

func (p *parser) addOperator(n *yaml.Node) {
	f := p.mapping(n, "an operator", "name", "time", "per_second", "instances", "nodes")
	if f == nil {
		return
	}
	o := placement.Operator{Name: p.word(f["name"], n, "name")}
	if p.instances[o.Name] != nil {
		p.fail(n.Line, "operator %q is listed twice: write %q for parallel copies", o.Name,
			"instances: 2")
		return
	}
	if f["time"] == nil {
		p.fail(n.Line, "operator %q has no time, such as %q", o.Name, "time: 12us")
	} else {
		o.Time = p.readTimes(f["time"], "time")
	}
	if f["per_second"] != nil {
		o.PerSecond = p.number(f["per_second"], n, "per_second")
	}
	copies := 1.0
	if f["instances"] != nil {
		copies = p.number(f["instances"], n, "instances")
	}
	if copies != float64(int(copies)) || copies < 1 || copies > maxInstances {
		p.fail(f["instances"].Line, "operator %q has %v instances: use 1 to %d", o.Name, copies,
			maxInstances)
		return
	}
	if f["nodes"] != nil {
		for _, w := range p.list(f["nodes"], n, "nodes") {
			o.Nodes = append(o.Nodes, p.nodeNamed(w))
		}
	}
	name := o.Name
	o.PerSecond /= copies
	for i := range int(copies) {
		if copies > 1 {
			o.Name = fmt.Sprintf("%s#%d", name, i)
		}
		p.instances[name] = append(p.instances[name], len(p.file.Job.Operators))
		p.file.Job.Operators = append(p.file.Job.Operators, o)
	}
}

func (p *parser) addEdges(n *yaml.Node) {
	if n.Kind != yaml.SequenceNode || len(n.Content) < 2 {
		p.fail(n.Line, "an edge is a list of the operators that tuples pass: write %q",
			"- [source, parse, count]")
		return
	}
	for i := 1; i < len(n.Content); i++ {
		for _, from := range p.operator(n.Content[i-1]) {
			for _, to := range p.operator(n.Content[i]) {
				p.file.Job.Edges = append(p.file.Job.Edges, placement.Edge{From: from, To: to})
			}
		}
	}
}

func (p *parser) addLatency(n *yaml.Node) {
	f := p.mapping(n, "a latency", "from", "into", "time")
	if f == nil {
		return
	}
	l := Latency{From: p.word(f["from"], n, "from"), Into: p.word(f["into"], n, "into")}
	for _, k := range []string{"from", "into"} {
		if f[k] != nil {
			p.nodeNamed(f[k])
		}
	}
	if f["time"] == nil {
		p.fail(n.Line, "the latency has no time, such as %q", "time: 20us..35us")
		return
	}
	l.Range = p.readTimes(f["time"], "time")
	p.file.Latencies = append(p.file.Latencies, l)
}

func (p *parser) now(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		p.fail(n.Line, "now is not a list of operators with nodes: write %q", "source: node1")
		return
	}
	p.file.Now = make(placement.Placement, len(p.file.Job.Operators))
	for i := range p.file.Now {
		p.file.Now[i] = -1
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		copies, at := p.operator(n.Content[i]), n.Content[i+1]
		nodes := []*yaml.Node{at}
		if at.Kind == yaml.SequenceNode {
			nodes = at.Content
		}
		if len(nodes) != len(copies) && len(copies) > 0 {
			p.fail(at.Line, "operator %q has %d instances, but %d nodes: name one node for each",
				n.Content[i].Value, len(copies), len(nodes))
			continue
		}
		for k, v := range copies {
			p.file.Now[v] = p.nodeNamed(nodes[k])
		}
	}
	for v, at := range p.file.Now {
		if at < 0 && len(p.firstMistakes) == 0 {
			p.fail(n.Line, "now does not say where operator %q runs", p.file.Job.Operators[v].Name)
		}
	}
}

func (p *parser) operator(n *yaml.Node) []int {
	if p.instances[n.Value] == nil {
		var known []string
		for name := range p.instances {
			known = append(known, name)
		}
		p.fail(n.Line, "operator %.40q is not in the list of operators%s", n.Value,
			suggestWord(n.Value, known))
	}
	return p.instances[n.Value]
}

func (p *parser) nodeNamed(n *yaml.Node) int {
	i, ok := p.node[n.Value]
	if !ok && !p.anyNode {
		var known []string
		for _, node := range p.file.Job.Nodes {
			known = append(known, node.Name)
		}
		p.fail(n.Line, "node %.40q is not in the list of nodes%s", n.Value,
			suggestWord(n.Value, known))
	}
	return i
}

func (p *parser) mapping(n *yaml.Node, what string, keys ...string) map[string]*yaml.Node {
	if n.Kind != yaml.MappingNode {
		p.fail(n.Line, "%s does not consist of keys and values: it takes %s", what,
			strings.Join(keys, ", "))
		return nil
	}
	fields := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case !slices.Contains(keys, key.Value):
			p.fail(key.Line, "%s has the unknown key %.40q%s; it takes %s", what, key.Value,
				suggestWord(key.Value, keys), strings.Join(keys, ", "))
		case fields[key.Value] != nil:
			p.fail(key.Line, "%s has %q twice", what, key.Value)
		default:
			fields[key.Value] = value
		}
	}
	return fields
}

func (p *parser) list(n, around *yaml.Node, what string) []*yaml.Node {
	switch {
	case n == nil:
		p.fail(around.Line, "no %s", what)
		return nil
	case n.Kind != yaml.SequenceNode:
		p.fail(n.Line, "%s is not a list: begin each with '- '", what)
		return nil
	}
	return n.Content
}

func (p *parser) word(n, around *yaml.Node, what string) string {
	switch {
	case n == nil:
		p.fail(around.Line, "no %s", what)
		return ""
	case n.Kind != yaml.ScalarNode || n.Value == "":
		p.fail(n.Line, "%s is not a single word", what)
		return ""
	}
	return n.Value
}

func (p *parser) number(n, around *yaml.Node, what string) float64 {
	text := p.word(n, around, what)
	if text == "" {
		return 1
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= 0) || x > maxNumber {
		p.fail(n.Line, "%s is %.40q: write a number, such as 4 or 2.5", what, text)
		return 1
	}
	return x
}

// readTimes reads a time or a range of times, such as 12us or 8us..15us.
func (p *parser) readTimes(n *yaml.Node, what string) placement.Range {
	lo, hi, ranged := strings.Cut(n.Value, "..")
	if !ranged {
		hi = lo
	}
	from, err := time.ParseDuration(strings.TrimSpace(lo))
	to, err2 := time.ParseDuration(strings.TrimSpace(hi))
	if err != nil || err2 != nil || from < 0 || to < from {
		p.fail(n.Line, "%s is %.40q: write a time, such as 12us, or a range, such as 8us..15us",
			what, n.Value)
	}
	return placement.Range{Lo_ns: float64(from), Hi_ns: float64(to)}
}

// suggestWord returns a question that offers the known word that is most similar to the given one.
// If no known word is similar, it returns an empty string.
func suggestWord(word string, known []string) string {
	best := similar.Word(word, slices.Values(slices.Sorted(slices.Values(known))))
	if best == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", best)
}
