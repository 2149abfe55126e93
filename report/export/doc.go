// Package export writes a run for other programs: two Parquet tables, the same tables as CSV, SQL
// that reads the Parquet tables, and a trace for Perfetto.
//
//	files, answer, err := export.Run(ctx, dir, options, export.Parquet|export.SQL)
//
// FORMAT.md describes the columns. The package computes nothing: package analysis computes each
// row.
package export
