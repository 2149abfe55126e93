package logstore

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// Suffix is the end of each log file's name.
const Suffix = ".cplog"

// SegmentName returns the name of a segment's file. The name consists of the channel, the
// incarnation and the segment's number.
func SegmentName(name channel.Name, incarnation Incarnation, segment int) string {
	return fmt.Sprintf("%s.%x.%06d%s", name.FileStem(), incarnation, segment, Suffix)
}

// Segment is a log file as its name describes it.
type Segment struct {
	Path        string
	Channel     channel.Name
	Incarnation Incarnation
	Number      int
}

// ParseSegment reverses SegmentName. Directories may precede the name.
func ParseSegment(path string) (Segment, bool) {
	base, found := strings.CutSuffix(filepath.Base(path), Suffix)
	if !found {
		return Segment{}, false
	}
	base, number, found := cutLast(base, '.')
	if !found {
		return Segment{}, false
	}
	stem, incarnation, found := cutLast(base, '.')
	if !found || len(incarnation) != 32 {
		return Segment{}, false
	}
	s := Segment{Path: path}
	var err error
	if s.Channel, err = channel.ParseFileStem(stem); err != nil {
		return Segment{}, false
	}
	if _, err := hex.Decode(s.Incarnation[:], []byte(incarnation)); err != nil {
		return Segment{}, false
	}
	if s.Number, err = strconv.Atoi(number); err != nil || s.Number < 0 {
		return Segment{}, false
	}
	return s, SegmentName(s.Channel, s.Incarnation, s.Number) == filepath.Base(path)
}

// sibling returns the path of another segment of the same log.
func (s Segment) sibling(number int) string {
	return filepath.Join(filepath.Dir(s.Path), SegmentName(s.Channel, s.Incarnation, number))
}

func cutLast(s string, separator byte) (before, after string, found bool) {
	i := strings.LastIndexByte(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// Segments lists the log files of a directory. In the list, the segments of one ring follow each
// other in the order of their numbers.
func Segments(dir string) ([]Segment, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list logs: %w", err)
	}
	var all []Segment
	for _, e := range entries {
		if s, ok := ParseSegment(filepath.Join(dir, e.Name())); ok && e.Type().IsRegular() {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b Segment) int {
		return cmp.Or(strings.Compare(a.Channel.String(), b.Channel.String()),
			slices.Compare(a.Incarnation[:], b.Incarnation[:]), cmp.Compare(a.Number, b.Number))
	})
	return all, nil
}

// SegmentsOf returns the segments of one ring from a list that Segments returned.
func SegmentsOf(all []Segment, name channel.Name, incarnation Incarnation) []Segment {
	order := func(s Segment, _ int) int {
		return cmp.Or(strings.Compare(s.Channel.String(), name.String()),
			bytes.Compare(s.Incarnation[:], incarnation[:]))
	}
	from, _ := slices.BinarySearchFunc(all, 0, order)
	to := from
	for to < len(all) && order(all[to], 0) == 0 {
		to++
	}
	return all[from:to:to]
}
