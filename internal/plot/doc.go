// Package plot draws lines, bands and points over two axes, as an SVG image or as text for a
// terminal.
//
// An image is one self-contained file: it needs no script, font or style sheet from elsewhere. It
// follows the reader's light or dark scheme. Series differ in dash and marker as well as in color,
// so that the image can be read on paper. The text is for a glance: a cell shows the last series in
// it.
//
// Data are thinned to what a pixel can show, and never inward: of a band's values at one pixel the
// outermost stay, of a line's the smallest and the largest. Values that are not finite, or not
// positive on a logarithmic axis, are gaps.
//
// The package computes nothing about its data, has no other kinds of chart, and knows no units but
// the text that it is given.
package plot
