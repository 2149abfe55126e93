package command

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// RingsFlag adds --rings, which sets the directory of the rings.
func RingsFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "rings", "",
		"directory of the rings (default $CLOUDPROFILER_DIR, else this user's in /dev/shm)")
}

// A WanderFlag is a flag with a wander as its value.
type WanderFlag struct {
	Value tscratio.Wander
	Given bool
}

func (w *WanderFlag) Type() string { return "wander" }

func (w *WanderFlag) String() string {
	if !w.Given {
		return ""
	}
	return w.Value.String()
}

func (w *WanderFlag) Set(text string) error {
	v, err := parseWander(text)
	if err != nil {
		return err
	}
	w.Value, w.Given = v, true
	return nil
}

// parseWander reads a number and its unit. Without a unit, the number is in ppm.
func parseWander(text string) (tscratio.Wander, error) {
	unit := tscratio.Wander(tscratio.PPM)
	number := strings.TrimSpace(text)
	for _, u := range []struct {
		name string
		unit tscratio.Wander
	}{{"ppm", tscratio.PPM}, {"ppb", tscratio.PPB}, {"ppt", tscratio.PPT}} {
		if rest, ok := strings.CutSuffix(strings.ToLower(number), u.name); ok {
			number, unit = strings.TrimSpace(rest), u.unit
			break
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v >= 0) || v*float64(unit) > float64(1e6*tscratio.PPM) {
		return 0, fmt.Errorf("%q is no wander: give a fraction such as 1ppm, 0.2ppm or 50ppb", text)
	}
	w := tscratio.Wander(v*float64(unit) + 0.5)
	if w == 0 {
		return 0, fmt.Errorf("%q is no wander of two counters: it would mean that their "+
			"relative rate never changes, and bounds would be false before the data refute it: "+
			"give more than 0", text)
	}
	return w, nil
}
