package handlertable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
	"github.com/cloudprofiler/cloudprofiler/internal/similar"
)

var (
	// ErrTable is returned for a handler table that cannot be used.
	ErrTable = errors.New("bad handler table")
	// ErrVersion is returned, together with ErrTable, for a handler table of a version that this
	// program does not know.
	ErrVersion = errors.New("unknown version of a handler table")
)

// Version is the version of the tables that this package reads and writes.
const Version = 1

// Parse reads a table and checks it completely. name is the name of the file, for errors. The
// returned error joins one error for each of the first maxFindings mistakes. Each of these errors
// has a line number and wraps ErrTable.
func Parse(text []byte, name string) (*Table, error) {
	p := parser{name: name}
	t := p.table(text)
	if len(p.firstMistakes) > 0 {
		return nil, errors.Join(p.firstMistakes...)
	}
	return t, nil
}

// Read does the same as Parse, for a file.
func Read(path string) (*Table, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(text, path)
}

func readFile(path string) ([]byte, error) {
	text, err := plainfile.Read(path, maxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("read handler table: %w", err)
	}
	return text, nil
}

// maxFindings is the largest number of mistakes that Parse reports.
const maxFindings = 20

// parser collects the mistakes in a table.
type parser struct {
	name          string
	firstMistakes []error // the first maxFindings mistakes
	findings      int
}

func (p *parser) fail(line int, format string, args ...any) {
	p.findings++
	if len(p.firstMistakes) < maxFindings {
		p.firstMistakes = append(p.firstMistakes,
			fmt.Errorf("read handler table %q: line %d: %w: %w",
				p.name, line, fmt.Errorf(format, args...), ErrTable))
	}
}

func (p *parser) table(text []byte) *Table {
	if len(text) > maxFileBytes {
		p.fail(1, "more than %d bytes", maxFileBytes)
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if err == io.EOF {
			p.fail(1, "it is empty: begin with %q", "version: 1")
		} else {
			p.fail(lineOf(err), "%s", strings.TrimPrefix(err.Error(), "yaml: "))
		}
		return nil
	}
	var next yaml.Node
	if err := decoder.Decode(&next); err != io.EOF {
		p.fail(max(next.Line, 1), "a second document begins: put all rules into one")
		return nil
	}
	t := &Table{}
	root := document.Content[0]
	// Check the version first, because in other versions all keys may mean something else.
	switch version := valueOf(root, "version"); {
	case root.Kind == yaml.MappingNode && version == nil:
		p.fail(root.Line, "no version: begin with %q", "version: 1")
		return t
	case version != nil && (version.Kind != yaml.ScalarNode ||
		version.Value != strconv.Itoa(Version)):
		p.fail(version.Line, "version %.20q, this program knows %d: %w", version.Value, Version,
			ErrVersion)
		return t
	}
	fields := p.readMapping(root, "the table", "version", "rules")
	if fields == nil {
		return t
	}
	rules := fields["rules"]
	switch {
	case rules == nil:
		p.fail(root.Line, "no rules: write %q for none", "rules: []")
	case rules.Kind != yaml.SequenceNode:
		p.fail(rules.Line, "rules are not a list: begin each with '- '")
	case len(rules.Content) > maxRules:
		p.fail(rules.Line, "%d rules, at most %d: join some with patterns",
			len(rules.Content), maxRules)
	default:
		for _, node := range rules.Content {
			t.Rules = append(t.Rules, p.rule(node))
		}
	}
	return t
}

func valueOf(mapping *yaml.Node, key string) *yaml.Node {
	if mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// lineOf finds the line number in an error of the YAML reader.
func lineOf(err error) int {
	_, after, _ := strings.Cut(err.Error(), "line ")
	line := 1
	fmt.Sscanf(after, "%d", &line)
	return line
}

func (p *parser) rule(node *yaml.Node) Rule {
	var r Rule
	before := p.findings
	fields := p.readMapping(node, "a rule", "node", "channel", "handler", "params", "rate")
	if fields == nil {
		return r
	}
	r.Node = p.readText(fields["node"], "node")
	if fields["node"] != nil && r.Node == "" && p.findings == before {
		p.fail(fields["node"].Line, "node is empty: write %q for all, or leave it out", "*")
	}
	if fields["channel"] == nil {
		p.fail(node.Line, "rule has no channel: write %q for all", `channel: "*"`)
	}
	r.Channel = p.readText(fields["channel"], "channel")
	if fields["handler"] == nil {
		p.fail(node.Line, "rule has no handler, such as %q", "handler: buffered")
	}
	handler := p.readText(fields["handler"], "handler")
	params := p.readParams(fields["params"])
	if rate := fields["rate"]; rate != nil {
		r.Rate_hz = p.readRate(rate)
	}
	if p.findings > before {
		return r
	}
	var err error
	if r.Settings, err = channel.NewSettings(handler, params); err != nil {
		line := fields["handler"].Line
		if fields["params"] != nil && errors.Is(err, channel.ErrParameter) {
			line = fields["params"].Line
		}
		p.fail(line, "%w", err)
		return r
	}
	if err := r.validate(); err != nil {
		p.fail(node.Line, "%w", err)
	}
	return r
}

// readMapping returns the values of a mapping by key. The mapping may have only the given keys, and
// each only once. If the node is not a mapping, readMapping returns nil.
func (p *parser) readMapping(node *yaml.Node, what string, keys ...string) map[string]*yaml.Node {
	if node.Kind != yaml.MappingNode {
		p.fail(node.Line, "%s is not made of keys and values: it takes %s",
			what, strings.Join(keys, ", "))
		return nil
	}
	fields := make(map[string]*yaml.Node)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode || len(keys) > 0 && !slices.Contains(keys, key.Value):
			meant := ""
			if best := similar.Word(key.Value, slices.Values(keys)); best != "" {
				meant = fmt.Sprintf("did you mean %q? ", best)
			}
			p.fail(key.Line, "%s has the unknown key %.40q: %sit takes %s",
				what, key.Value, meant, strings.Join(keys, ", "))
		case fields[key.Value] != nil:
			p.fail(key.Line, "%s has %q twice", what, key.Value)
		default:
			fields[key.Value] = value
		}
	}
	return fields
}

// readText reads a text. It returns "" if the node is absent.
func (p *parser) readText(node *yaml.Node, what string) string {
	if node == nil {
		return ""
	}
	// YAML reads the word null as no value, but here it is a handler's name.
	if node.Kind != yaml.ScalarNode ||
		node.ShortTag() == "!!null" && node.Value != channel.Null.String() {
		p.fail(node.Line, "%s is not a single word", what)
		return ""
	}
	return node.Value
}

// readParams reads a handler's parameters: numbers, or texts such as "64Ki" and "500ms". Package
// channel checks whether the handler has these parameters.
func (p *parser) readParams(node *yaml.Node) channel.Params {
	if node == nil {
		return nil
	}
	params := make(channel.Params)
	for name, value := range p.readMapping(node, "params") {
		var number uint64
		switch {
		case value.Kind == yaml.ScalarNode && value.ShortTag() == "!!str":
			params[name] = value.Value
		case value.Kind == yaml.ScalarNode && value.ShortTag() == "!!int" &&
			value.Decode(&number) == nil:
			params[name] = number
		default:
			p.fail(value.Line, "parameter %.40q is %.40q: write a whole number of 0 or more, or "+
				"a text such as 64Ki or 500ms", name, value.Value)
		}
	}
	return params
}

// readRate reads a rate in rows per second.
func (p *parser) readRate(node *yaml.Node) uint64 {
	n, err := uint64(0), error(channel.ErrParameter)
	if node.Kind == yaml.ScalarNode && (node.ShortTag() == "!!str" || node.ShortTag() == "!!int") {
		n, err = channel.ParseCount(node.Value)
	}
	switch {
	case err != nil:
		p.fail(node.Line, "rate is %.40q: write a whole number of rows a second, such as "+
			"5000 or 10K", node.Value)
	case n == 0:
		p.fail(node.Line, "rate 0 keeps nothing: write %q, or leave rate out for all",
			"handler: null")
	}
	return n
}

// Text returns the table as text that Parse can read. The comments of the original file are lost.
func (t *Table) Text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "version: %d\nrules:", Version)
	if len(t.Rules) == 0 {
		b.WriteString(" []")
	}
	b.WriteByte('\n')
	for _, r := range t.Rules {
		start := "  - "
		if r.Node != "" {
			fmt.Fprintf(&b, "%snode: %q\n", start, r.Node)
			start = "    "
		}
		fmt.Fprintf(&b, "%schannel: %q\n", start, r.Channel)
		fmt.Fprintf(&b, "    handler: %s\n", r.Settings.Kind)
		if params := r.Settings.Params(); len(params) > 0 {
			b.WriteString("    params:\n")
			for _, param := range params {
				fmt.Fprintf(&b, "      %s: %s\n", param.Name, param.Text)
			}
		}
		if r.Rate_hz > 0 {
			fmt.Fprintf(&b, "    rate: %d\n", r.Rate_hz)
		}
	}
	return b.Bytes()
}
