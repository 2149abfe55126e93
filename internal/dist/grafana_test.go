package dist

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// dashboard has the parts of a Grafana dashboard that the tests read.
type dashboard struct {
	UID, Title, Description string
	Templating              struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []struct {
		ID          int
		Type, Title string
		Description string
		GridPos     struct{ X, Y, W, H int }
		Datasource  struct{ UID string }
		FieldConfig struct{ Defaults struct{ Unit string } }
		Targets     []struct{ Expr, LegendFormat, RefID string }
	}
}

const grafana = "../../packaging/grafana"

func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	all := map[string]dashboard{}
	for _, name := range names(t, grafana) {
		var d dashboard
		if err := json.Unmarshal([]byte(read(t, grafana, name)), &d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = d
	}
	return all
}

// A query has the metrics and labels in a PromQL expression.
type query struct {
	labels map[string][]string // for each metric: the labels that the expression matches
	groups []string            // labels by which the expression groups or joins
}

var (
	text     = regexp.MustCompile(`"[^"]*"`)
	selector = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\s*\{([^}]*)\}`)
	label    = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=~|!~|!=|=)`)
	grouping = regexp.MustCompile(`\b(by|without|on|ignoring|group_left|group_right)` +
		`\s*\(([^)]*)\)`)
	rangeOf    = regexp.MustCompile(`\[[^\]]*\]`)
	word       = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*(\s*\()?`)
	between    = []string{"and", "or", "unless", "bool", "offset"}
	variable   = regexp.MustCompile(`\$\{?(\w+)`)
	legendWord = regexp.MustCompile(`\{\{([^}]*)\}\}`)
)

// queryOf finds metrics and labels in an expression. It understands only the parts of PromQL that
// the dashboards use.
func queryOf(expr string) query {
	q := query{labels: map[string][]string{}}
	rest := rangeOf.ReplaceAllString(text.ReplaceAllString(expr, `""`), "")
	for _, m := range grouping.FindAllStringSubmatch(rest, -1) {
		for _, l := range strings.Split(m[2], ",") {
			if l = strings.TrimSpace(l); l != "" {
				q.groups = append(q.groups, l)
			}
		}
	}
	rest = grouping.ReplaceAllString(rest, " ")
	for _, m := range selector.FindAllStringSubmatch(rest, -1) {
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			q.labels[m[1]] = append(q.labels[m[1]], l[1])
		}
	}
	rest = selector.ReplaceAllString(rest, "$1 ")
	for _, w := range word.FindAllString(rest, -1) {
		if !strings.HasSuffix(w, "(") && !slices.Contains(between, w) {
			q.labels[w] = append(q.labels[w], []string{}...)
		}
	}
	return q
}

func TestQueries(t *testing.T) {
	q := queryOf(`topk(10, sum by (a, b) (rate(x_total{c=~"$c", d!="e{f}"}[5m]))) / on (g) ` +
		`group_right () y or vector(0) and z{} == bool 1`)
	want := map[string][]string{"x_total": {"c", "d"}, "y": nil, "z": nil}
	if !maps.EqualFunc(q.labels, want, slices.Equal) ||
		!slices.Equal(q.groups, []string{"a", "b", "g"}) {
		t.Errorf("%+v", q)
	}
}

// byPrometheus has the labels that Prometheus itself adds to each metric.
var byPrometheus = []string{"instance", "job"}

// sometimes is a map. Its keys are metrics that a daemon exports only under conditions that this
// test does not create. Its values name the conditions.
var sometimes = map[string]string{
	"cloudprofiler_agent_chrony_bound_seconds": "a chronyd that is synchronised",
	"cloudprofiler_sweep_seconds":              "a sweep",
	"cloudprofiler_sweep_pairs":                "a sweep",
}

// The daemons export every metric and label that the dashboards use. Every metric of the daemons is
// on a dashboard.
func TestDashboardsShowWhatIsExported(t *testing.T) {
	exported, _ := scraped(t)
	shown := map[string]bool{}
	for name, d := range dashboards(t) {
		exprs := map[string][]string{} // for each expression: its legends
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				exprs[target.Expr] = append(exprs[target.Expr], target.LegendFormat)
			}
		}
		for _, v := range d.Templating.List {
			if inside, ok := strings.CutPrefix(v.Definition, "label_values("); ok {
				metric, of, _ := strings.Cut(strings.TrimSuffix(inside, ")"), ", ")
				exprs["sum by ("+of+") ("+metric+")"] = nil
			}
		}
		for expr, legends := range exprs {
			q := queryOf(expr)
			has := slices.Clone(byPrometheus)
			for metric, labels := range q.labels {
				known, ok := exported[metric]
				if shown[metric] = true; !ok && sometimes[metric] == "" {
					t.Errorf("%s: no daemon exports %q, which is in %s", name, metric, expr)
				}
				if metric == "cloudprofiler_sweep_pairs" {
					known = []string{"state"}
				}
				has = append(has, known...)
				for _, l := range labels {
					if !slices.Contains(known, l) && !slices.Contains(byPrometheus, l) {
						t.Errorf("%s: %q has no label %q, which is in %s", name, metric, l, expr)
					}
				}
			}
			for _, l := range q.groups {
				if !slices.Contains(has, l) {
					t.Errorf("%s: nothing has the label %q in %s", name, l, expr)
				}
			}
			for _, legend := range legends {
				for _, l := range legendWord.FindAllStringSubmatch(legend, -1) {
					if !slices.Contains(has, l[1]) {
						t.Errorf("%s: nothing has the label %q of the legend of %s", name, l[1],
							expr)
					}
				}
			}
		}
	}
	for metric := range exported {
		if strings.HasPrefix(metric, "cloudprofiler_") && !shown[metric] {
			t.Errorf("no dashboard shows %q", metric)
		}
	}
}

// Grafana can import each dashboard: no part that Grafana needs is missing, and no panel covers
// another.
func TestDashboardsAreWhole(t *testing.T) {
	uids := map[string]string{}
	for name, d := range dashboards(t) {
		other := uids[d.UID]
		if d.UID == "" || other != "" || d.Title == "" || d.Description == "" {
			t.Errorf("%s: uid %q (as %q), title %q", name, d.UID, other, d.Title)
		}
		uids[d.UID] = name
		variables := []string{"__rate_interval", "__range"}
		for _, v := range d.Templating.List {
			variables = append(variables, v.Name)
		}
		taken, ids := map[[2]int]string{}, map[int]bool{}
		for _, p := range d.Panels {
			unit := p.FieldConfig.Defaults.Unit
			if ids[p.ID] || p.Description == "" || unit == "" ||
				p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
				t.Errorf("%s: panel %q: id %d, unit %q, source %q, %d queries", name, p.Title, p.ID,
					unit, p.Datasource.UID, len(p.Targets))
			}
			ids[p.ID] = true
			g := p.GridPos
			for x := g.X; x < g.X+g.W; x++ {
				for y := g.Y; y < g.Y+g.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" || x < 0 || x >= 24 {
						t.Fatalf("%s: panel %q covers %q, or leaves the page", name, p.Title,
							other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			for _, target := range p.Targets {
				for _, v := range variable.FindAllStringSubmatch(target.Expr, -1) {
					if !slices.Contains(variables, v[1]) {
						t.Errorf("%s: panel %q has no variable %q", name, p.Title, v[1])
					}
				}
				if strings.Count(target.Expr, "(") != strings.Count(target.Expr, ")") {
					t.Errorf("%s: panel %q: %s", name, p.Title, target.Expr)
				}
			}
		}
	}
}

// This variable keeps the result of the first call of scraped. Two tests need this result, and
// starting a fleet takes seconds.
var once struct {
	labels map[string][]string
	texts  []string
}

// scraped starts a server and two agents. It returns the labels of each metric that they export,
// and the texts of everything that they export.
func scraped(t *testing.T) (labels map[string][]string, texts []string) {
	t.Helper()
	if once.labels == nil {
		once.labels, once.texts = scrapedAnew(t)
	}
	return once.labels, once.texts
}

func scrapedAnew(t *testing.T) (all map[string][]string, texts []string) {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	build := exec.Command("go", "build", "-o", bin+"/", "../../cmd/tsc-server",
		"../../cmd/cp-agent")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	server := free(t)
	var urls []string
	start := func(command, directory string, args ...string) {
		metrics := free(t)
		urls = append(urls, "http://"+metrics+"/metrics")
		cmd := exec.Command(filepath.Join(bin, command), append(args, "--metrics", metrics,
			"--state", filepath.Join(dir, directory))...)
		cmd.Env = append(os.Environ(), "CLOUDPROFILER_DIR=")
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
			if t.Failed() {
				t.Logf("%s: %s", command, said.String())
			}
		})
	}
	start("tsc-server", "server", "--listen", server, "--runs", filepath.Join(dir, "runs"),
		"--quiet-busy", "1", "--quiet-limit", "10ms")
	for _, node := range []string{"alpha", "beta"} {
		rings := filepath.Join(dir, node, "rings")
		start("cp-agent", node+"/state", "--node", node, "--rings", rings, "--server", server,
			"--chrony", "off", "--probes", "127.0.0.1:0")
		c, err := handlers.Open("parser/start", handlers.Options{Dir: rings})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		all, texts = map[string][]string{}, nil
		for _, url := range urls {
			texts = append(texts, scrape(all, url))
		}
		if all["cloudprofiler_pair_suspect"] != nil &&
			all["cloudprofiler_agent_channel_events"] != nil {
			return all, texts
		}
		if time.Now().After(end) {
			t.Fatalf("after a minute, the daemons export %q", slices.Sorted(maps.Keys(all)))
		}
	}
}

// free returns an address of this machine on which no program listens.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

var series = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? `)

// scrape adds the labels of the metrics at a URL. If the daemon does not answer yet, the function
// scrape adds nothing. It returns all that the URL contains.
func scrape(all map[string][]string, url string) string {
	answer, err := http.Get(url)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	var content strings.Builder
	lines := bufio.NewScanner(io.TeeReader(io.LimitReader(answer.Body, 1<<24), &content))
	for lines.Scan() {
		m := series.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		labels := all[m[1]]
		if labels == nil {
			labels = []string{}
		}
		for _, l := range label.FindAllStringSubmatch(text.ReplaceAllString(m[2], `""`), -1) {
			if !slices.Contains(labels, l[1]) {
				labels = append(labels, l[1])
			}
		}
		all[m[1]] = labels
	}
	return content.String()
}

// The page that says how to import the dashboards names every dashboard.
func TestDashboardsAreExplained(t *testing.T) {
	page := read(t, "../../docs/operating.md")
	for name := range dashboards(t) {
		if !strings.Contains(page, "grafana/"+name) {
			t.Errorf("docs/operating.md does not name grafana/%s", name)
		}
	}
}

func TestDashboardsAreShipped(t *testing.T) {
	dir := archive(t)
	for name := range dashboards(t) {
		if !exists(dir, "grafana", name) {
			t.Errorf("the archive has no grafana/%s", name)
		}
	}
}
