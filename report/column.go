package report

import "github.com/cloudprofiler/cloudprofiler/analysis"

// None marks a bucket that has no value. It is null in JSON.
const None = analysis.None

// Column has a value for each bucket of the timeline.
type Column = analysis.Column
