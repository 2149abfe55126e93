package dist

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

const prometheusFolder = "../../packaging/prometheus"

// Every metric that an alert rule watches is exported by a daemon.
func TestAlertsWatchWhatIsExported(t *testing.T) {
	exported, _ := scraped(t)
	rules := regexp.MustCompile(`(?m)^ +expr: (.*)$`).FindAllStringSubmatch(
		read(t, prometheusFolder, "alerts.yaml"), -1)
	if len(rules) < 8 {
		t.Fatalf("%d rules: the test does not see them", len(rules))
	}
	for _, rule := range rules {
		for metric := range queryOf(rule[1]).labels {
			if strings.HasPrefix(metric, "cloudprofiler") && exported[metric] == nil {
				t.Errorf("no daemon exports %q, which is in %s", metric, rule[1])
			}
		}
	}
	if !strings.Contains(read(t, "../../docs/operating.md"), "prometheus/alerts.yaml") {
		t.Error("docs/operating.md does not name prometheus/alerts.yaml")
	}
}

// Prometheus's own tool accepts the alert rules and sees each of them fire. It finds no fault with
// the names and types of the metrics of a live fleet.
func TestBarPromtool(t *testing.T) {
	proof.Begin(t)
	refused := proof.Bar{Name: "rules and metrics that promtool refuses", Unit: "things"}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		refused.Absent = fmt.Sprintf("%v: it is of Debian's package prometheus", err)
		proof.Check(t, refused)
		return
	}
	for _, args := range [][]string{
		{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"},
	} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = prometheusFolder
		if out, err := cmd.CombinedOutput(); err != nil {
			refused.Figure++
			t.Logf("promtool %v: %v: %s", args, err, out)
		}
	}
	_, texts := scraped(t)
	for _, text := range texts {
		cmd := exec.Command(promtool, "check", "metrics")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			refused.Figure++
			t.Logf("promtool check metrics: %v: %s", err, out)
		}
	}
	proof.Check(t, refused)
}
