package machine

import (
	"github.com/cloudprofiler/cloudprofiler/blackbox/capture"
	"github.com/cloudprofiler/cloudprofiler/host"
)

// captures says whether an agent with the rights of this process could capture messages. The
// function check tries it. It returns early = true if the capture would also see the moments at
// which sending calls begin.
func captures(check func() (early bool, err error)) host.Finding {
	f := host.Finding{Name: "capture", Verdict: host.Fit}
	switch early, err := check(); {
	case err != nil:
		f.Verdict, f.Detail = host.Warning, err.Error()
		f.Remedy = "only \"cprof capture\" needs this: see docs/blackbox.md"
	case !early:
		f.Verdict = host.Warning
		f.Detail = "messages of programs can be captured, but not when the sending calls began"
		f.Remedy = "use Linux 6.16 or later, if transfers are to have a duration"
	default:
		f.Detail = "messages of programs can be captured, and when the sending calls began"
	}
	return f
}

func captureFinding() host.Finding { return captures(capture.Check) }
