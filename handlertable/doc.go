// Package handlertable reads the table that gives each channel its handler. A table is a YAML file
// of rules, with patterns for the names of nodes and channels. FORMAT.md describes it.
//
// A table is checked completely before it is used. Package drain applies a table to channels, and
// package control sends it to other nodes.
package handlertable
