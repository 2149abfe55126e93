// Package plot draws lines, bands and points over two axes, as an SVG image or as text for a terminal.
//
// An image is one self-contained file: no script, no font and no style sheet of anywhere else. It follows the reader's
// light or dark scheme, and series differ in dash and marker as well as in colour, so that it can be read on paper.
// The text is for a glance: a cell shows the last series that is in it.
//
// What is drawn is thinned to what a pixel can show, and never inward: of a band's values at one pixel the outermost
// stay, of a line's the smallest and the largest. Values that are not finite, or not positive on a logarithmic axis,
// are gaps.
//
// The package computes nothing about what it draws, has no other kinds of chart, and knows no units but the text that
// it is given.
package plot
