package logstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// End says what follows a sealed segment. The numbers are in files: never change one.
type End uint8

const (
	Unsaid End = iota // the file is not sealed, or it is of version 1
	GoesOn            // the next segment follows, in the same directory
	Moved             // the next segment follows, in another directory
	Ended             // nothing follows: the log ends here

	ends
)

var endNames = [ends]string{"----", "next", "away", "done"}

func (e End) String() string {
	if e >= ends {
		return fmt.Sprintf("end-%d", uint8(e))
	}
	return endNames[e]
}

// Break is a place where the segments of a log do not fit together.
type Break struct {
	// The segments with the numbers from From to To − 1 are gone. If From equals To, none is gone.
	From, To int
	More     bool // segments with higher numbers may also be gone

	// Changed names the file of a segment that was changed or replaced: its fingerprint is not the
	// one that the next segment contains. If Changed is "", From and To describe the break.
	Changed string
}

func (b Break) String() string {
	switch {
	case b.Changed != "":
		return fmt.Sprintf("%q is not the file that the segment after it was begun behind: "+
			"it was changed, or another took its place", b.Changed)
	case b.More:
		return fmt.Sprintf("segment %d and what came behind it are gone, "+
			"unless their writer died before it began them", b.From)
	case b.To == b.From+1:
		return fmt.Sprintf("segment %d is gone", b.From)
	}
	return fmt.Sprintf("segments %d to %d are gone", b.From, b.To-1)
}

// CheckChain checks whether a list of segments is complete. The list contains the segments of one
// ring in one directory, in order. Each segment says to which part of the log it belongs, which
// segment was before it, and what follows it. CheckChain reads the beginning and the end of each
// segment. Segments of version 1 do not contain this information. So if the first segment of the
// list is of version 1, CheckChain cannot tell whether earlier segments are gone. If the last
// segment of the list is of version 1, CheckChain cannot tell whether later segments are gone.
func CheckChain(segments []Segment) ([]Break, error) {
	var breaks []Break
	var before link
	for i, s := range segments {
		l, err := readLink(s)
		if err != nil {
			return nil, err
		}
		switch part := l.header.Part; {
		case i > 0:
			breaks = append(breaks, wrongBetween(before, l)...)
		case l.known && part != UnknownPart && part < s.Number:
			breaks = append(breaks, Break{From: part, To: s.Number})
		}
		before = l
	}
	if !before.known || before.then != GoesOn {
		return breaks, nil
	}
	// The next segment may have been begun after the caller listed the segments.
	next := before.Number + 1
	_, err := os.Lstat(before.sibling(next))
	if errors.Is(err, fs.ErrNotExist) {
		breaks = append(breaks, Break{From: next, To: next + 1, More: true})
	}
	return breaks, nil
}

// link is a segment, with what its file says about its place in the log.
type link struct {
	Segment
	known  bool // its header could be read and matches the file's name
	header Header
	then   End
	print  Fingerprint
}

func readLink(s Segment) (link, error) {
	l := link{Segment: s}
	file, err := os.Open(s.Path)
	if errors.Is(err, fs.ErrNotExist) {
		// The file was removed after the segments were listed. A reader of its blocks reports that.
		return l, nil
	}
	if err != nil {
		return l, fmt.Errorf("check segments: %w", err)
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return l, fmt.Errorf("check segments: %w", err)
	}
	f, err := newFile(file, st.Size(), s.Path)
	if errors.Is(err, ErrHeader) || errors.Is(err, ErrNotLog) || errors.Is(err, ErrVersion) ||
		errors.Is(err, ErrFormat) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	l.header = f.header
	l.known = f.header.Channel == s.Channel && f.header.Incarnation == s.Incarnation &&
		f.header.Segment == s.Number
	tail := make([]byte, endSize)
	if _, err := file.ReadAt(tail, st.Size()-endSize); err != nil && err != io.EOF {
		return l, fmt.Errorf("check segments: %w", err)
	}
	if e, ok := parseEnd(tail); ok {
		l.then = e.then
	}
	if l.print, err = TakeFingerprint(file, st.Size()); errors.Is(err, io.EOF) {
		return l, nil // the file has become shorter meanwhile
	}
	return l, err
}

// wrongBetween returns what is wrong between two segments that follow each other in the list.
func wrongBetween(a, b link) []Break {
	next := a.Number + 1
	switch {
	case b.Number == next:
		told := b.known && b.header.Previous != Fingerprint{}
		if told && a.known && !a.header.Rewritten && a.print != b.header.Previous {
			return []Break{{From: next, To: next, Changed: filepath.Base(a.Path)}}
		}
		return nil
	case b.known && b.header.Part > a.Number:
		// The log moved to another directory, and came back with a segment that begins a new part:
		// see Header.Part.
		var breaks []Break
		if a.then != Moved && a.then != Ended && (!a.known || a.header.version > 1) {
			breaks = append(breaks, Break{From: next, To: next + 1, More: true})
		}
		if b.header.Part < b.Number {
			breaks = append(breaks, Break{From: b.header.Part, To: b.Number})
		}
		return breaks
	}
	return []Break{{From: next, To: b.Number}}
}
