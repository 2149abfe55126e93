package dist

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// TestBarChart renders the Helm chart with its default values and with values that users may set,
// and checks the objects with the validation of Kubernetes's API server. It also makes sure that
// this validation refuses bad values. No kubelet runs the objects.
func TestBarChart(t *testing.T) {
	if proof.Begin(t) != proof.Full {
		t.Skip("make prove builds Helm's renderer, which takes minutes")
	}
	bad := proof.Bar{Name: "renderings of the Helm chart that an API server would refuse",
		Unit: "renderings"}
	const want = "DaemonSet cp-agent\nService cp-server\nStatefulSet cp-server\n"
	for name, settings := range map[string][]string{
		"its own values": nil,
		"other values": {"user=1000", "server.storageClass=fast",
			"agent.tolerations[0].operator=Exists", "agent.nodeSelector.pool=x",
			"agent.seccompProfile.type=Localhost", "agent.seccompProfile.localhostProfile=a.json"},
		"no seccomp": {"agent.seccompProfile.type=Unconfined"},
	} {
		if out, err := render(settings...); err != nil || !strings.HasSuffix(out, want) {
			bad.Figure++
			t.Logf("%s: %v: %s", name, err, out)
		}
	}
	for setting, want := range map[string]string{
		"image=":                 "containers[0].image: Required value",
		"imagePullPolicy=Seldom": "imagePullPolicy: Unsupported value",
		"user=-3":                "must be between 0 and 2147483647",
		"server.storage=20Gx":    "quantities must match",
		"agent.namePod=true":     "Additional property namePod is not allowed",

		"agent.seccompProfile.type=Runtime":   "seccompProfile.type: Unsupported value",
		"agent.seccompProfile.type=Localhost": "localhostProfile: Required value",
	} {
		out, err := render(setting)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%s is not refused: %v: %s", setting, err, out)
		}
	}
	proof.Check(t, bad)
}

func render(settings ...string) (said string, err error) {
	args := append([]string{"-C", "../../tools/chart", "run", ".",
		"../../packaging/helm/cloudprofiler"}, settings...)
	out, err := exec.Command("go", args...).CombinedOutput()
	return string(out), err
}
