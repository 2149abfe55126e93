// Package export writes a run for other programs: two Parquet tables, the same as CSV, SQL that
// reads them, and a trace for Perfetto.
//
//	files, answer, err := export.Run(ctx, dir, options, export.Parquet|export.SQL)
//
// FORMAT.md describes the columns. The package computes nothing: each row is what package analysis
// found.
package export
