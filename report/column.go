package report

import "github.com/cloudprofiler/cloudprofiler/analysis"

// None is the value of a bucket for which there is none: null in JSON.
const None = analysis.None

// Column is a value for each bucket of the timeline.
type Column = analysis.Column
