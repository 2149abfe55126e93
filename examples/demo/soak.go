package demo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/memory"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// Soak is the result of a long demonstration at a moderate rate, with the memory and the disk space
// that it took. Nodes make as many trains as the nodes of a fleet do. The result has no spans and
// no bound of the paper's method. The durations of a whole soak would not fit into memory, so they
// are compared with the truth a few periods at a time.
type Soak struct {
	Result
	Every     time.Duration // the length of a period
	Processes []string      // the processes that were watched
	Samples   []Sample      // one for each period while the job ran
	Periods   []Period      // in order; a tuple belongs to the period in which it was made
}

// Sample is the memory and disk in use in one period.
type Sample struct {
	Private_bytes []int64 // median in the period, for each of Soak.Processes
	Disk_bytes    int64   // at the end of the period
}

// Period says what was found about the tuples that were made in one period.
type Period struct {
	Durations, Between, Outside int
	HalfWidth_cycles            float64 // median bound of the durations between nodes

	widths []int64
}

// RunSoak runs a demonstration in periods of the given length. It ignores Options.Exchanges and
// Options.Keep.
func RunSoak(ctx context.Context, o Options, every time.Duration) (*Soak, error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	d := &demonstration{o: o, soak: &Soak{Every: every}}
	if err := d.runWithin(ctx, d.run); err != nil {
		return nil, err
	}
	d.soak.Result = d.Result
	return d.soak, nil
}

// samplesAPeriod is the number of times that the memory is read in a period. A single garbage
// collection does not disturb the median of these readings.
const samplesAPeriod = 6

// runWatched runs the job. If this is a soak, it also measures, again and again, how much memory
// and disk space is used.
func (d *demonstration) runWatched(job func() error) error {
	if d.soak == nil {
		return job()
	}
	var pids []int
	watch := func(name string, p *process) {
		d.soak.Processes = append(d.soak.Processes, name)
		pids = append(pids, p.cmd.Process.Pid)
	}
	watch("coordinator", d.server)
	for i := range d.nodes {
		watch("agent "+d.Nodes[i].Name, d.nodes[i])
		watch("job "+d.Nodes[i].Name, d.programs[i])
	}
	ended := make(chan error, 1)
	go func() { ended <- job() }()
	ticker := time.NewTicker(d.soak.Every / samplesAPeriod)
	defer ticker.Stop()
	begun := time.Now()
	read := make([][]int64, len(pids))
	for {
		select {
		case err := <-ended:
			return err
		case <-ticker.C:
		}
		for i, pid := range pids {
			bytes, err := memory.Private_bytes(pid)
			if err != nil {
				return errors.Join(err, <-ended) // without this process the job fails too
			}
			read[i] = append(read[i], bytes)
		}
		if len(read[0]) < samplesAPeriod {
			continue
		}
		s := Sample{Disk_bytes: disk_bytes(d.scratch)}
		for i := range read {
			s.Private_bytes = append(s.Private_bytes, percentile(read[i], 50))
			read[i] = read[i][:0]
		}
		d.soak.Samples = append(d.soak.Samples, s)
		d.o.Progress(fmt.Sprintf("%v of %v: %d MB in memory, %d MB on disk",
			time.Since(begun).Round(time.Second), d.jobLasts().Round(time.Second),
			sum(s.Private_bytes)>>20, s.Disk_bytes>>20))
	}
}

func sum(v []int64) (s int64) {
	for _, one := range v {
		s += one
	}
	return s
}

// Growth_bytes returns how much a process grew in the second half of the samples. It uses the
// median of the slopes between every two samples (Theil and Sen). A few outliers do not move this
// median. ok is false if there are too few samples.
func (s *Soak) Growth_bytes(process int) (bytes float64, ok bool) {
	half := s.Samples[len(s.Samples)/2:]
	if len(half) < fewestSamples {
		return 0, false
	}
	var slopes []float64
	for i := range half {
		for j := range i {
			grown := half[i].Private_bytes[process] - half[j].Private_bytes[process]
			slopes = append(slopes, float64(grown)/float64(i-j))
		}
	}
	slices.Sort(slopes)
	return slopes[len(slopes)/2] * float64(len(half)), true
}

// fewestSamples is the number of samples that Growth_bytes needs in the second half.
const fewestSamples = 10

// SecondHalfTuples returns the number of tuples that were sent in the second half of the samples.
func (s *Soak) SecondHalfTuples() int {
	if len(s.Samples) == 0 {
		return 0
	}
	return s.Tuples * (len(s.Samples) - len(s.Samples)/2) / len(s.Samples)
}

// Spread shows how steady the bound was. The first result (worst) is the largest bound of a period
// divided by the median of all periods' bounds. The second (drift) is the median of the second half
// of the periods divided by the median of the first half.
func (s *Soak) Spread() (worst, drift float64) {
	median := func(some []Period) float64 {
		var v []float64
		for _, p := range some {
			v = append(v, p.HalfWidth_cycles)
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	if len(s.Periods) < 2 {
		return math.NaN(), math.NaN()
	}
	for _, p := range s.Periods {
		worst = max(worst, p.HalfWidth_cycles)
	}
	half := len(s.Periods) / 2
	return worst / median(s.Periods), median(s.Periods[half:]) / median(s.Periods[:half])
}

// Checked returns for a soak what Result.Checked returns for a demonstration. A soak has no spans,
// so Checked adds up its periods.
func (s *Soak) Checked() (durations, between, outside int) {
	for _, p := range s.Periods {
		durations += p.Durations
		between += p.Between
		outside += p.Outside
	}
	return durations, between, outside
}

// Each id contains a rising number, its count. idRange has the lowest and the highest count among
// the ids that one program on one node made.
type idRange struct{ first, last uint64 }

// idPeriods finds the period in which an id was made. It assumes that programs make ids at a steady
// rate, with rising counts.
type idPeriods struct {
	ranges  map[uint64]*idRange // by the id without its count
	periods uint64
}

func (p *idPeriods) add(id uint64) {
	prefix, count := id&^channel.MaxCount, id&channel.MaxCount
	r := p.ranges[prefix]
	if r == nil {
		r = &idRange{count, count}
		p.ranges[prefix] = r
	}
	r.first, r.last = min(r.first, count), max(r.last, count)
}

// periodOf returns the period in which an id was made. The id must have been added with add.
func (p *idPeriods) periodOf(id uint64) int {
	r := p.ranges[id&^channel.MaxCount]
	return int((id&channel.MaxCount - r.first) * p.periods / (r.last - r.first + 1))
}

// rangesBetween returns the ids of some periods, as ranges of ids. The parameter from is the first
// of these periods, and the parameter to is the first period after them.
func (p *idPeriods) rangesBetween(from, to int) (ids [][2]uint64) {
	for prefix, r := range p.ranges {
		begin := func(period int) uint64 { // the least count of the period
			n := r.last - r.first + 1
			return r.first + (uint64(period)*n+p.periods-1)/p.periods
		}
		if first, next := begin(from), begin(to); first < next {
			ids = append(ids, [2]uint64{prefix | first, prefix | (next - 1)})
		}
	}
	return ids
}

// tuplesAtOnce is the number of tuples that are compared with the truth at once, in memory.
const tuplesAtOnce = 300_000

// answerSoak analyses the collected run as "cprof analyze" does. Then it compares the durations
// with the truth, a few periods at a time.
func (d *demonstration) answerSoak(ctx context.Context, run *runs.Directory) (err error) {
	d.Wander = run.Run.Assumptions().Wander
	d.o.Progress("joining tuples")
	if d.Answer, err = analysis.Run(ctx, run, analysis.Options{Scratch: d.scratch}); err != nil {
		return err
	}
	d.countLost()
	ids := idPeriods{map[uint64]*idRange{}, uint64(max(1, d.jobLasts()/d.soak.Every))}
	add := func(_ string, e logstore.Event) { ids.add(e.ID) }
	if err := readEvents(add, d.logDirectories()...); err != nil {
		return err
	}
	count := int(ids.periods)
	d.soak.Periods = make([]Period, count)
	atOnce := max(1, tuplesAtOnce*count/d.o.Tuples)
	for from := 0; from < count; from += atOnce {
		to := min(from+atOnce, count)
		d.o.Progress(fmt.Sprintf("checking durations against the truth, periods %d to %d of %d",
			from+1, to, count))
		if err := d.checkPeriods(ctx, run, &ids, from, to); err != nil {
			return err
		}
	}
	return nil
}

func (d *demonstration) checkPeriods(
	ctx context.Context, run *runs.Directory, ids *idPeriods, from, to int,
) error {
	within := func(id uint64) bool {
		period := ids.periodOf(id)
		return from <= period && period < to
	}
	physical, err := readPhysicals(within, d.logDirectories()...)
	if err != nil {
		return err
	}
	reference := d.Nodes[0].Clocks.Counter
	check, err := newChecker(physical, nil, reference, func(r analysis.DurationRow, truth int64) {
		p := &d.soak.Periods[ids.periodOf(r.ID)]
		p.Durations++
		if r.FromNode != r.ToNode {
			p.Between++
			p.widths = append(p.widths, r.Hi-r.Lo)
		}
		if !r.Contains(truth) {
			p.Outside++
		}
	})
	if err != nil {
		return err
	}
	for _, edges := range [][][2]string{nil, sinceStart()} {
		_, err := analysis.Run(ctx, run, analysis.Options{
			Edges: edges, OnlyEdges: edges != nil, Durations: check.checkDuration,
			Scratch: d.scratch,
			Filter:  analysis.Filter{IDs: ids.rangesBetween(from, to)}, Slowest: -1,
		})
		if err != nil {
			return err
		}
	}
	for i := from; i < to; i++ {
		p := &d.soak.Periods[i]
		p.HalfWidth_cycles = float64(percentile(p.widths, 50)) / 2
		p.widths = nil
	}
	return nil
}
