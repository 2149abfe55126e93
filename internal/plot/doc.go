// Package plot draws lines, bands and points over two axes, as an SVG image or as text for a
// terminal.
//
// An image is one self-contained file: it requires no script, font or style sheet from elsewhere.
// It follows the reader's light or dark scheme. Series differ in dash and marker as well as in
// color, so that the image can be read on paper. The text gives a first impression: a cell shows
// the last series that passes through it.
//
// The package thins data to what a pixel can show, but keeps extremes. If several values of a band
// lie at one pixel, the smallest lower and the largest upper value stay. If several values of a
// line lie at one pixel, the smallest and the largest stay. Values that are not finite, or not
// positive on a logarithmic axis, are gaps.
//
// The package computes nothing about its data, and has no other kinds of chart. It treats units
// only as text.
package plot
