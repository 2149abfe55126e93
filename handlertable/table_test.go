package handlertable

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

func name(t testing.TB, s string) channel.Name {
	t.Helper()
	n, err := channel.ParseName(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestFirstRuleDecides(t *testing.T) {
	table, err := Parse([]byte(`
version: 1
rules:
  - {node: "a*", channel: "parser/start", handler: id}
  - {channel: "parser#7/start", handler: downsample, params: {n: 10}}
  - {channel: "parser#*/end", handler: counter, params: {period: 500ms}}
  - {channel: "parser*", handler: xoy, params: {x: 2, y: 1Ki}}
  - {node: "b?", channel: "*/start", handler: null}
`), "test")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ node, channel, want string }{
		{"alpha", "parser/start", "id"},
		{"alpha", "parser#0/start", "id"},
		{"alpha", "parser#12/start", "id"},
		{"beta", "parser#7/start", "downsample n=10"},
		{"beta", "parser#70/start", "xoy x=2 y=1024"},
		{"beta", "parser#7/end", "counter period=500ms"},
		{"beta", "parser/end", "xoy x=2 y=1024"},
		{"beta", "parsers/x", "xoy x=2 y=1024"},
		{"b1", "join/start", "null"},
		{"b1", "join#3/start", "null"},
		{"b12", "join/start", ""},
		{"", "join/start", ""},
		{"b1", "my/starts", ""},
	} {
		rule, ok := table.For(test.node, name(t, test.channel))
		got := rule.Settings.String()
		if !ok {
			got = ""
		}
		if got != test.want {
			t.Errorf("on %q, %s: %q, want %q", test.node, test.channel, got, test.want)
		}
	}
	var none *Table
	if _, ok := none.For("a", name(t, "a/b")); ok {
		t.Error("a nil table has a rule")
	}
}

func TestParseRefuses(t *testing.T) {
	rule := func(s string) string { return "version: 1\nrules:\n  - " + s + "\n" }
	tests := []struct {
		name, text string
		line       int
		say        string
	}{
		{"empty", "", 1, `begin with "version: 1"`},
		{"only a comment", "# nothing\n", 1, "empty"},
		{"no YAML", "version: 1\nrules: [\n", 2, "did not find expected node"},
		{"tab", "version: 1\nrules:\n\t- a\n", 3, "cannot start any token"},
		{"a list", "- 1\n", 1, "not made of keys and values"},
		{"a word", "hello\n", 1, "not made of keys and values"},
		{"null", "---\n", 2, "not made of keys and values"},
		{"two documents", "version: 1\nrules: []\n---\nversion: 1\n", 3, "second document"},
		{"no version", "rules: []\n", 1, `begin with "version: 1"`},
		{"new version", "version: 2\nrulez: []\n", 1, `version "2"`},
		{"version in words", "version: one\nrules: []\n", 1, `version "one", this program knows 1`},
		{"no rules", "version: 1\n", 1, `write "rules: []"`},
		{"rules are none", "version: 1\nrules:\n", 2, "not a list"},
		{"a key twice", "version: 1\nrules: []\nrules: []\n", 3, `"rules" twice`},
		{"unknown key", "version: 1\nrules: []\nrule: []\n",
			3, `unknown key "rule": did you mean "rules"? it takes version, rules`},
		{"rule is a word", rule("id"), 3, "it takes node, channel, handler, params"},
		{"unknown key of a rule", rule(`{channel: "*", handler: id, speed: 3}`), 3,
			`unknown key "speed": it takes node,`},
		{"misspelt key of a rule", rule(`{chanel: "*", handler: id}`), 3,
			`unknown key "chanel": did you mean "channel"? it takes node,`},
		{"no rate", rule(`{channel: "*", handler: id, rate: 0}`), 3, `write "handler: null"`},
		{"negative rate", rule(`{channel: "*", handler: id, rate: -3}`), 3, `rate is "-3"`},
		{"rate in words", rule(`{channel: "*", handler: id, rate: fast}`), 3, `rate is "fast"`},
		{"list of rates", rule(`{channel: "*", handler: id, rate: [3]}`), 3,
			"write a whole number of rows"},
		{"fraction as rate", rule(`{channel: "*", handler: id, rate: 0.5}`), 3, `rate is "0.5"`},
		{"rate beyond all", rule(`{channel: "*", handler: id, rate: 2000000000000}`), 3,
			"at most 1099511627776"},
		{"rate of a counter", rule(`{channel: "*", handler: counter, rate: 3}`), 3,
			"keeps no single events"},
		{"rate of nothing", rule(`{channel: "*", handler: null, rate: 3}`), 3,
			"keeps no single events"},
		{"no channel", rule("{handler: id}"), 3, "rule has no channel"},
		{"no handler", rule(`{channel: "*"}`), 3, "rule has no handler"},
		{"no word", rule(`{channel: "*", handler: ~}`), 3, "not a single word"},
		{"unknown handler", rule("channel: \"*\"\n    handler: identity"), 4,
			`handler "identity": use one of null, id`},
		{"unknown parameter", rule("channel: \"*\"\n    handler: id\n    params: {n: 3}"), 5,
			`parameter "n" is not one of its own: it takes none`},
		{"missing parameter", rule("channel: \"*\"\n    handler: xoy\n    params:\n      x: 3"), 6,
			`parameter "y" is missing`},
		{"no params at all", rule("channel: \"*\"\n    handler: xoy"), 4,
			`parameter "x" is missing`},
		{"negative", rule(`{channel: "*", handler: downsample, params: {n: -1}}`), 3,
			`"-1": write a whole number`},
		{"fraction", rule(`{channel: "*", handler: downsample, params: {n: 1.5}}`), 3,
			`"1.5": write a whole number`},
		{"zero", rule(`{channel: "*", handler: downsample, params: {n: 0}}`), 3, "n of 1 or more"},
		{"a list as parameter", rule(`{channel: "*", handler: downsample, params: {n: [1]}}`), 3,
			"write a whole number"},
		{"short period", rule(`{channel: "*", handler: counter, params: {period: 1us}}`), 3,
			"1ms up"},
		{"parameter twice", rule(`{channel: "*", handler: downsample, params: {n: 1, n: 2}}`), 3,
			`"n" twice`},
		{"params is a list", rule(`{channel: "*", handler: downsample, params: [n]}`), 3,
			"params is not made of keys"},
		{"empty node", rule(`{node: "", channel: "*", handler: id}`), 3, "node is empty"},
		{"empty channel", rule(`{channel: "", handler: id}`), 3, "channel is empty"},
		{"node with a space", rule(`{node: "a b", channel: "*", handler: id}`), 3,
			"without spaces"},
		{"class", rule(`{channel: "[ab]/start", handler: id}`), 3, `no channel's name has "["`},
		{"long pattern", rule(`{channel: "` + strings.Repeat("a", 257) + `", handler: id}`), 3,
			"257 bytes"},
		{"alias", "version: 1\nrules:\n  - &a {channel: \"*\", handler: id}\n  - *a\n",
			4, "not made of keys"},
		{"merge", "version: 1\nrules:\n  - {channel: \"*\", handler: id}\n  - {<<: {handler: " +
			"id}, channel: \"*\"}\n", 4, `unknown key "<<"`},
		{"second of two", "version: 1\nrules:\n  - {channel: \"*\", handler: id}\n  - {channel: " +
			"\"*\", handler: ix}\n", 4, `"ix"`},
		{"huge", strings.Repeat("#", maxFileBytes+1), 1, "more than 1048576 bytes"},
		{"many rules", "version: 1\nrules:\n" + strings.Repeat("- {channel: a, handler: id}\n",
			maxRules+1), 3, "10001 rules, at most 10000"},
	}
	for _, test := range tests {
		table, err := Parse([]byte(test.text), "t.yaml")
		if table != nil || !errors.Is(err, ErrTable) {
			t.Errorf("%s: table %v, error %v", test.name, table, err)
			continue
		}
		first, _, _ := strings.Cut(err.Error(), "\n")
		prefix := fmt.Sprintf(`read handler table "t.yaml": line %d: `, test.line)
		if !strings.HasPrefix(first, prefix) || !strings.Contains(err.Error(), test.say) {
			t.Errorf("%s:\n%v\nwant line %d and %q", test.name, err, test.line, test.say)
		}
	}
	if _, err := Parse([]byte("version: 2\nrules: []\n"), ""); !errors.Is(err, ErrVersion) {
		t.Errorf("version 2: %v", err)
	}
}

func TestAllFindingsComeAtOnce(t *testing.T) {
	_, err := Parse([]byte(`version: 1
rules:
  - {channel: "*", handler: ix}
  - {channel: "*", handler: id}
  - {chanel: "*", handler: id}
`), "t")
	for _, want := range []string{"line 3", "line 5", `"chanel"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	_, err = Parse([]byte("version: 1\nrules:\n"+strings.Repeat("- {}\n", 1000)), "t")
	if n := strings.Count(err.Error(), "\n") + 1; n != maxFindings {
		t.Errorf("%d findings, want %d", n, maxFindings)
	}
}

func TestValidateRefusesWhatParseDoes(t *testing.T) {
	good := Rule{Channel: "*", Settings: channel.Settings{Kind: channel.Identity}}
	for _, bad := range []Rule{
		{Channel: "", Settings: good.Settings},
		{Channel: "a b", Settings: good.Settings},
		{Node: "\n", Channel: "*", Settings: good.Settings},
		{Channel: "*", Settings: channel.Settings{Kind: channel.Downsample}},
		{Channel: "*", Settings: channel.Settings{Kind: 99}},
	} {
		table := &Table{Rules: []Rule{good, bad}}
		if err := table.Validate(); !errors.Is(err, ErrTable) ||
			!strings.Contains(err.Error(), "rule 2") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if err := (&Table{Rules: []Rule{good}}).Validate(); err != nil {
		t.Error(err)
	}
	if err := (&Table{Rules: make([]Rule, maxRules+1)}).Validate(); err == nil {
		t.Error("too many rules pass")
	}
}

func TestExampleIsATable(t *testing.T) {
	table, err := Read("../configs/handlers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ node, channel, want string }{
		{"canary-3", "parser#1/start", "id"},
		{"worker-3", "parser#1/start", "xoy x=2 y=1024"},
		{"worker-3", "sink#0/recv", "counter period=100ms"},
		{"worker-3", "experiment#2/x", "null"},
	} {
		if got, ok := table.For(test.node, name(t, test.channel)); !ok ||
			got.Settings.String() != test.want {
			t.Errorf("on %s, %s: %s, %v, want %s", test.node, test.channel, got.Settings, ok,
				test.want)
		}
	}
	if _, ok := table.For("worker-3", name(t, "source/start")); ok {
		t.Error("the example has a rule for source/start")
	}
}

// A table that is written and read again has the same rules and gives the same answers.
func FuzzParse(f *testing.F) {
	example, err := readFile("../configs/handlers.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(example))
	f.Add("version: 1\nrules: []\n")
	f.Add("version: 1\nrules:\n- {channel: \"a?b*#1/*\", handler: counter, params: {period: " +
		"1000000}}\n")
	f.Add("version: 1\nrules:\n- {channel: \"*\", handler: id, rate: 10K}\n- {channel: \"*\", " +
		"handler: downsample, params: {n: 3}, rate: 0x10}\n")
	f.Add("version: 0x1\nrules:\n- {node: '*', channel: a/b, handler: downsample, params: " +
		"{n: 0x10}}\n")
	names := []channel.Name{name(f, "a/b"), name(f, "parser#1/start"), name(f, "sink/recv"),
		name(f, "sink#0/recv")}
	f.Fuzz(func(t *testing.T, text string) {
		table, err := Parse([]byte(text), "fuzz")
		if err != nil {
			if table != nil || !errors.Is(err, ErrTable) {
				t.Fatalf("table %v with error %v", table, err)
			}
			return
		}
		if err := table.Validate(); err != nil {
			t.Fatalf("Parse passed what Validate does not: %v", err)
		}
		again, err := Parse(table.Text(), "again")
		if err != nil {
			t.Fatalf("%v\n%s", err, table.Text())
		}
		if len(again.Rules) != len(table.Rules) {
			t.Fatalf("%d rules became %d", len(table.Rules), len(again.Rules))
		}
		for i := range again.Rules {
			if again.Rules[i] != table.Rules[i] {
				t.Fatalf("rule %d: %+v became %+v", i+1, table.Rules[i], again.Rules[i])
			}
		}
		for _, node := range []string{"", "canary-1", "b"} {
			for _, name := range names {
				got, ok := table.For(node, name)
				want, found := firstOf(table.Rules, node, name)
				if ok != found || got != want {
					t.Fatalf("on %q, %s: %v %v, want %v %v", node, name, got, ok, want, found)
				}
			}
		}
	})
}

// firstOf implements the documentation of Table.For with regular expressions.
func firstOf(rules []Rule, node string, name channel.Name) (Rule, bool) {
	takes := func(pattern, text string) bool {
		quoted := regexp.QuoteMeta(pattern)
		expression := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(quoted)
		return regexp.MustCompile("^(?s:" + expression + ")$").MatchString(text)
	}
	for _, r := range rules {
		text := name.String()
		if !strings.Contains(r.Channel, "#") {
			text = name.Actor + "/" + name.Point
		}
		if (r.Node == "" || takes(r.Node, node)) && takes(r.Channel, text) {
			return r, true
		}
	}
	return Rule{}, false
}
