package commands

import (
	"fmt"
	"io"

	"github.com/cloudprofiler/cloudprofiler/bench/fleet"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

const (
	// tableLimit is a share of a figure that the model of a random regular graph gives. The
	// measured figure, and the figure of the thesis, may differ from the model's figure by at most
	// this share.
	tableLimit = 0.1

	// These are the sizes of the experiments of KELP's thesis, unless the proof is full.
	smallTables   = 1000
	smallSearches = 1500
	smallPeriods  = 1000
)

// barsOfTables returns a bar for each table of KELP's thesis.
func barsOfTables(cells []fleet.KelpCell) (bars []proof.Bar) {
	for _, table := range fleet.KelpTables {
		worst, count := fleet.KelpCell{}, 0
		for _, c := range cells {
			if c.Table == table && c.Free == "" {
				if count++; count == 1 || c.Off() > worst.Off() {
					worst = c
				}
			}
		}
		if count > 0 {
			bars = append(bars, proof.Bar{
				Name:   fmt.Sprintf("KELP: %s, the worst of %d figures", table, count),
				Unit:   "of the model",
				Figure: worst.Off(), Limit: tableLimit})
		}
	}
	return bars
}

// printTables prints the experiments of KELP's thesis, and marks the figures of the thesis that are
// not near the model's figures.
func printTables(out io.Writer, cells []fleet.KelpCell) {
	if len(cells) == 0 {
		return
	}
	table, strange, wide := "", 0, 0
	for _, c := range cells {
		wide = max(wide, len(c.What))
	}
	for _, c := range cells {
		if c.Table != table {
			table = c.Table
			fmt.Fprintf(out, "\n%-*s  measured   model  thesis\n", wide, table)
		}
		note := ""
		switch {
		case !c.Reproduced(tableLimit):
			strange++
			note = "  the thesis is not near the model"
		case c.Free != "":
			note = "  " + c.Free
		case c.Off() > tableLimit:
			note = "  not near the model"
		}
		fmt.Fprintf(out, "%-*s  %8.2f %7.2f %7.2f%s\n", wide, c.What, c.Measured, c.Model, c.Thesis,
			note)
	}
	fmt.Fprintf(out, "\n%d of %d figures of the thesis are not within %g %% of the model\n\n",
		strange, len(cells), 100*tableLimit)
}
