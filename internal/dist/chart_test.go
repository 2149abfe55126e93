package dist

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// TestBarChart renders the Helm chart with its own values and with others, and checks the objects
// against the types of Kubernetes. No kubelet runs them.
func TestBarChart(t *testing.T) {
	if proof.Begin(t) != proof.Full {
		t.Skip("make prove builds Helm's renderer, which takes minutes")
	}
	bad := proof.Bar{Name: "ways of rendering the Helm chart that Kubernetes's types refuse",
		Unit: "ways"}
	const want = "DaemonSet cp-agent\nService cp-server\nStatefulSet cp-server\n"
	for name, settings := range map[string][]string{
		"its own values": nil,
		"other values": {"user=1000", "server.storageClass=fast",
			"agent.tolerations[0].operator=Exists", "agent.nodeSelector.pool=x"},
	} {
		args := append([]string{"-C", "../../tools/chart", "run", ".",
			"../../packaging/helm/cloudprofiler"}, settings...)
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil ||
			!strings.HasSuffix(string(out), want) {
			bad.Figure++
			t.Logf("%s: %v: %s", name, err, out)
		}
	}
	proof.Check(t, bad)
}
