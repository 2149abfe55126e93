package command

import (
	"testing"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

func TestParseWander(t *testing.T) {
	for text, want := range map[string]tscratio.Wander{
		"1ppm":    tscratio.PPM,
		"0.2 ppm": 200 * tscratio.PPB,
		"50ppb":   50 * tscratio.PPB,
		"3":       3 * tscratio.PPM,
		"1PPB":    tscratio.PPB,
		"7ppt":    7,
	} {
		if got, err := parseWander(text); got != want || err != nil {
			t.Errorf("parseWander(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	bad := []string{"", "ppm", "-1ppm", "nan", "inf", "1e30", "1 ms", "0", "0ppm", "0.1ppt"}
	for _, text := range bad {
		if got, err := parseWander(text); err == nil {
			t.Errorf("parseWander(%q) = %v, want an error", text, got)
		}
	}
}
