// Package export writes a run for other programs: Parquet tables, the same tables as CSV, SQL that
// reads the Parquet tables, a trace for Perfetto, and spans for OpenTelemetry.
//
//	files, answer, err := export.Run(ctx, dir, options, export.Parquet|export.SQL)
//	spans, answer, err := export.OTLP(ctx, dir, options, export.Lines(file))
//
// FORMAT.md describes the columns, tracks and spans. The package computes nothing: package analysis
// computes each row.
package export
