// Package handlertable is the table that says which handler a channel gets: rules with patterns on the names of node and
// channel, in a YAML file (FORMAT.md).
//
// A table is checked as a whole before anybody uses it. The package neither applies settings to channels (package drain)
// nor carries tables between nodes.
package handlertable
