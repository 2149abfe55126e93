package explore

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// IndexName is the file name of the index in the run's directory of exports.
const IndexName = "explore.index"

// Prepare opens the index of a run. If there is no index, or if the run or the options have changed
// since the index was made, Prepare makes a new index, and tells the function remark the reason.
// The function page makes the report's page from the analysis's answer. The caller closes the
// index.
func Prepare(ctx context.Context, dir *runs.Directory, o analysis.Options,
	page func(*analysis.Answer) ([]byte, error), remark func(why string)) (_ *Index, err error) {
	fail := func(err error) (*Index, error) {
		return nil, fmt.Errorf("prepare run %q: %w", dir.Run.Name, err)
	}
	want, err := fingerprint(dir, &o)
	if err != nil {
		return fail(err)
	}
	if index, _, err := openIfFitting(dir, want); index != nil || err != nil {
		return index, err
	}
	unlock, err := lockIndex(ctx, dir.Path, remark)
	if err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	// another process may have made the index while this process waited
	index, why, err := openIfFitting(dir, want)
	if index != nil || err != nil {
		return index, err
	}
	remark(why)
	if err := build(ctx, dir, o, want, page); err != nil {
		return fail(err)
	}
	return openIndex(dir)
}

// openIfFitting opens the index if its fingerprint is the wanted one. Otherwise it returns no
// index, and why is the reason for making a new one.
func openIfFitting(dir *runs.Directory, want string) (index *Index, why string, err error) {
	index, err = openIndex(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "the index is made: this is done once", nil
	case err != nil:
		return nil, fmt.Sprintf("the index is made anew: %v", err), nil
	case index.contents.Fingerprint != want:
		return nil, "the index is made anew: the run or the options have changed", index.Close()
	}
	return index, "", nil
}

// fingerprint returns a hash of everything on which an index depends: the options, and the name,
// size and time of each file of the run.
func fingerprint(dir *runs.Directory, o *analysis.Options) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%d %q %v %v %d %q %v %+v %v\n", Version, o.Reference, o.Wander, o.ThirdNodes,
		o.Slowest, o.Edges, o.OnlyEdges, o.Filter, o.Truth != nil)
	err := filepath.WalkDir(dir.Path, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		of, err := filepath.Rel(dir.Path, name)
		if err != nil {
			return err
		}
		if e.IsDir() {
			if of == "exports" {
				return fs.SkipDir
			}
			return nil
		}
		if of == "report.html" || strings.HasPrefix(of, "report.html.") {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %d %d\n", of, info.Size(), info.ModTime().UnixNano())
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

// build analyses the run and writes its index.
func build(ctx context.Context, dir *runs.Directory, o analysis.Options, fingerprint string,
	page func(*analysis.Answer) ([]byte, error)) (err error) {
	scratch := o.Scratch
	if scratch == "" {
		scratch = os.TempDir()
	}
	c, err := newCollector(scratch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	o.Events = func(e analysis.EventRow) error { return c.event(&e) }
	o.Pauses = func(p analysis.PauseRow) error { c.addPause(&p); return nil }
	o.Durations = func(d analysis.DurationRow) error { return c.duration(&d) }
	progress := o.Progress
	if progress == nil {
		progress = func(float64, string) {}
	}
	// The analysis takes about two thirds of the time.
	o.Progress = func(done float64, what string) { progress(done*0.65, what) }
	answer, err := analysis.Run(ctx, dir, o)
	err = errors.Join(err, c.end())
	if err != nil {
		return err
	}
	file, err := dir.CreateExport(IndexName)
	if err != nil {
		return fmt.Errorf("%w: give a copy of the run that may be written", err)
	}
	buffered := bufio.NewWriterSize(file, 1<<20)
	b := &builder{collector: c, answer: answer, w: &writer{w: buffered}, ctx: ctx,
		progress: progress}
	if err = b.write(fingerprint, page); err == nil {
		err = buffered.Flush()
	}
	if err != nil {
		return errors.Join(err, file.Abandon())
	}
	return file.Finish()
}

// builder writes the index from the rows of the collector.
type builder struct {
	*collector
	answer   *analysis.Answer
	w        *writer
	ctx      context.Context
	progress func(float64, string)
}

func (b *builder) write(fingerprint string, page func(*analysis.Answer) ([]byte, error)) error {
	all := contents{Meta: b.makeMeta(), Fingerprint: fingerprint}
	tracks := make([]level, b.tracks)
	counted := make([]uint64, b.tracks)
	ended := make([]uint64, b.tracks)
	var t *trackWriter
	now := noTrack
	finish := func() {
		if now != noTrack {
			tracks[now] = t.finish()
			for _, n := range t.nodes[0] {
				counted[now] += n.items
				ended[now] += uint64(n.ended)
			}
		}
	}
	first, last := ^uint64(0), uint64(0)
	err := b.items.merge(func(i *item) error {
		if i.track != now {
			finish()
			now = i.track
			t = &trackWriter{w: b.w, counts: counts{}}
		}
		if !slices.Contains(b.jvmTrack, now) { // a JVM pauses before and after all tuples
			first, last = min(first, i.begin().Lo), max(last, i.end().Hi)
		}
		t.add(i)
		return b.w.err
	}, b.shareProgress(0.65, 0.25, "sorting by time"))
	if err != nil {
		return err
	}
	finish()
	tuples := &tupleWriter{w: b.w}
	if err := b.tuples.merge(tuples.add, b.shareProgress(0.9, 0.1, "sorting by id")); err != nil {
		return err
	}
	all.Tuples = tuples.finish()
	// If the report is too large to send by mail, page returns an error. The run can still be
	// explored.
	if html, err := page(b.answer); err != nil {
		all.Meta.ReportAbsent = err.Error()
	} else {
		all.Page = b.w.write(html)
	}
	m := &all.Meta
	if first <= last {
		m.Start_cycles, m.Length_cycles = analysis.Reading(first), last-first
	}
	for i, track := range b.laneTrack {
		m.Lanes[i].Count, m.Lanes[i].Ended = counted[track], ended[track]
		all.Tracks = append(all.Tracks, tracks[track])
	}
	for i, track := range b.spanTrack {
		m.Spans[i].Count = counted[track]
		m.Spans[i].Never = b.neverMeasured(&m.Spans[i])
		all.Tracks = append(all.Tracks, tracks[track])
	}
	for i := range m.JVMs {
		l := level{}
		if i < len(b.jvmTrack) {
			l = tracks[b.jvmTrack[i]]
		}
		all.Tracks = append(all.Tracks, l)
	}
	return b.w.finish(&all)
}

// shareProgress returns the function that sorter.merge takes as its parameter done. That function
// reports the progress of the merge, and stops the merge when the context ends.
func (b *builder) shareProgress(from, part float64, what string) func(int) error {
	total := max(float64(b.answer.Work.Tuples), 1)
	return func(rows int) error {
		b.progress(from+part*min(1, float64(rows)/total/4), what)
		return context.Cause(b.ctx)
	}
}

// makeMeta makes the description of the run. Tuples refer to lanes, points and spans by number, so
// lanes, points and spans keep the order in which they were found. The page orders points by Order.
func (b *builder) makeMeta() Meta {
	a := b.answer
	m := Meta{Version: Version, Run: a.Run, Note: a.Note, Reference: a.Reference,
		Seconds: a.Reference.SecondsMean(), Partial: a.Partial, Complete: a.Complete,
		Tuples: a.Work.Tuples, Events: a.Work.Events, Channels: b.channels, Lanes: b.lanes,
		Spans: b.spans, Findings: a.Findings}
	for _, name := range b.points {
		p := Point{Name: name}
		for _, known := range a.Points {
			if known.Name == name {
				p = Point{name, known.Sink, known.Lost, known.Filtered, known.InFlight,
					known.Undecided, known.Perhaps}
			}
		}
		m.Points = append(m.Points, p)
	}
	for _, p := range a.Points {
		m.Order = append(m.Order, slices.Index(b.points, p.Name))
	}
	m.Order = slices.DeleteFunc(m.Order, func(i int) bool { return i < 0 })
	for i := range m.Spans {
		s := &m.Spans[i]
		for _, known := range slices.Concat(a.Spans, a.EndToEnd) {
			kind := known.Kind
			if known.Origin != "" {
				kind += ", " + known.Origin
			}
			if known.From == s.From && known.To == s.To && kind == s.Kind {
				s.Percentiles = append(slices.Clone(known.All.Percentiles),
					analysis.Percentile{Percent: 100, Interval: known.All.Max})
				s.Kept = known.Completeness
				s.Unplaced, s.Withheld = known.All.Unplaced, known.All.Withheld
				if known.Pauses != nil {
					s.Pauses = known.Pauses.Text()
				}
			}
		}
	}
	b.describeJVMs(&m)
	return m
}

// neverMeasured returns how many tuples passed the span's first point and have no duration of the
// span.
func (b *builder) neverMeasured(s *Span) uint64 {
	if strings.Contains(s.Kind, ",") {
		return 0 // the span begins in the tuples of which its tuples were made
	}
	for _, p := range b.answer.Points {
		if has := s.Count + s.Unplaced + s.Withheld; p.Name == s.From && p.Tuples > has {
			return p.Tuples - has
		}
	}
	return 0
}

// readSection reads a whole section and checks its checksum.
func readSection(f io.ReaderAt, s section, size int64) ([]byte, error) {
	if s.Offset > uint64(size) || s.Length > uint64(size)-s.Offset {
		return nil, fmt.Errorf("a section of %d bytes at %d lies outside: %w", s.Length, s.Offset,
			errDamaged)
	}
	b := make([]byte, s.Length)
	if _, err := f.ReadAt(b, int64(s.Offset)); err != nil {
		return nil, err
	}
	return b, sum(b, s.Sum, s.Offset)
}
