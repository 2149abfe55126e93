package report

import "github.com/cloudprofiler/cloudprofiler/analysis"

// None stands for a bucket without a value. It is null in JSON.
const None = analysis.None

// Column has a value for each bucket of the timeline.
type Column = analysis.Column
