package config

import (
	"iter"

	"github.com/cloudprofiler/cloudprofiler/internal/similar"
)

// suggestKey returns a hint for a wrong key: the name that is nearest to it. If no name is near, it
// returns an empty string.
func (f *File) suggestKey(wrong string, names iter.Seq[string]) string {
	if best := similar.Word(wrong, names); best != "" {
		at := ""
		if line := f.Line(best); line > 0 {
			at = " of line " + itoa(line)
		}
		return "; the nearest key is " + quote(best) + at
	}
	return ""
}
