// Package plot draws lines, bands and points over two axes, as an SVG image or as text for a
// terminal.
//
// An image is one self-contained file: it requires no script, font or style sheet from elsewhere.
// It follows the reader's light or dark scheme. Series differ in dash and marker as well as in
// color, so that the image can be read on paper. The text is for a glance: a cell shows the last
// series that passes through it.
//
// Data are thinned to what a pixel can show, but extremes are kept. Of a band's values at one pixel
// the outermost stay. Of a line's values the smallest and the largest stay. Values that are not
// finite, or not positive on a logarithmic axis, are gaps.
//
// The package computes nothing about its data, and has no other kinds of chart. Units are only text
// to it.
package plot
