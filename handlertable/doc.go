// Package handlertable reads the table that says which handler a channel gets. A table is a YAML
// file of rules, with patterns on the names of nodes and channels. FORMAT.md describes it.
//
// A table is checked as a whole before anybody uses it. Package drain applies it to channels, and
// package control carries it between nodes.
package handlertable
