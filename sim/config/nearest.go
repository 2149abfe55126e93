package config

import (
	"iter"

	"github.com/cloudprofiler/cloudprofiler/internal/similar"
)

// suggestKey returns a hint that names the nearest name to a wrong one. It returns nothing if none
// is near.
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
