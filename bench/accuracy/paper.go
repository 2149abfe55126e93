package accuracy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// PaperRow compares the paper's method with ours on the same exchanges. Each of the two nodes
// starts a hundred exchanges before a pause and a hundred after it. The nodes' rates are constant,
// as the paper assumes. Our method is told so, too.
type PaperRow struct {
	Transport string // "udp" or "zmq"
	Spin      bool
	Load      bool

	// Paper_us has one element for each repetition. The exchanges that one node started give one
	// bound, and those that the other node started give another: the element is the smaller of the
	// two. Such a bound is half of the larger of two round trips: the smallest one before the
	// pause, and the smallest one after it.
	Paper_us   []float64
	Ours_us    []float64 // our half-width at the median query, with quantum and core slack
	Ratios     []float64 // Paper_us divided by Ours_us
	Queries    int
	Outside    int // queries whose truth is outside the paper's interval
	OursBeyond int // queries whose truth is outside our interval
}

// Name returns the row's name. In these names, plain means the paper's method. The paper itself
// uses ZeroMQ.
func (r PaperRow) Name() string {
	if r.Transport == "zmq" {
		return "plain-zmq"
	}
	return "plain-udp"
}

const (
	paperExchanges = 100
	paperPause     = 500 * time.Millisecond
)

// paper measures one row.
func (l *twoEnds) paper(ctx context.Context, r *rand.Rand, row *PaperRow, queries int) (err error) {
	s := Setting{
		Shape: vnode.Steady, Spin: row.Spin, Load: row.Load, Exchanges: paperExchanges,
		PerSecond: 1,
	}
	nodes, err := l.configs(r, s)
	if err != nil {
		return err
	}
	var truths [2]*vnode.Truth
	for i := range truths {
		if truths[i], err = vnode.NewTruth(nodes[i].Counter); err != nil {
			return err
		}
	}
	var probers [2]*prober
	defer func() {
		for _, p := range probers {
			if p != nil {
				_, closeErr := p.close()
				err = errors.Join(err, closeErr)
			}
		}
	}()
	for i := range probers {
		if probers[i], err = l.prober(nodes, i, s, row.Transport == "zmq"); err != nil {
			return err
		}
	}
	if row.Load {
		unload, err := l.load()
		if err != nil {
			return err
		}
		defer func() { _, _ = unload() }()
	}
	var periods [2][2]minrtt.Train // trains before and after the pause, by their starter
	var between [2]uint64
	for i := range periods {
		err := onThread(row.Spin, 0, func() (err error) {
			for by, p := range probers {
				if periods[i][by], err = p.insist(ctx); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if i == 0 {
			between[0] = asm.Counter()
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(paperPause):
			}
			between[1] = asm.Counter()
		}
	}
	return l.compare(r, row, queries, nodes, truths, periods, between)
}

// insist runs a train, and runs it again if it had no result. On a busy machine an end may stop for
// longer than the prober waits.
func (p *prober) insist(ctx context.Context) (t minrtt.Train, err error) {
	for range 5 {
		t, err = p.Train(ctx)
		nothing := errors.Is(err, minrtt.ErrNoAnswer) || errors.Is(err, minrtt.ErrClockSet)
		if !nothing {
			break
		}
	}
	return t, err
}

// compare evaluates both methods at random moments in the pause.
func (l *twoEnds) compare(r *rand.Rand, row *PaperRow, queries int, nodes [2]vnode.Config,
	truths [2]*vnode.Truth, periods [2][2]minrtt.Train, between [2]uint64) error {
	all := &session{machine: l.machine, nodes: nodes}
	pair, err := all.pair(User)
	if err != nil {
		return err
	}
	var papers [2]tscratio.PaperRelation // by the node that started the exchanges
	for by := range papers {
		before, after := periods[0][by].User(), periods[1][by].User()
		if papers[by], err = tscratio.PaperRelate(before, after); err != nil {
			return err
		}
		for _, es := range [][]tscratio.Exchange{before, after} {
			train := tscratio.Train{By: tscratio.Starter(by), Exchanges: es}
			if err := pair.Add(train); err != nil {
				return err
			}
		}
	}
	var ours [2]*tscratio.Relation
	for i, into := range []tscratio.Side{tscratio.SideA, tscratio.SideB} {
		if ours[i], err = pair.Relate(into, 0); err != nil {
			return fmt.Errorf("at w = 0: %w", err)
		}
	}
	var widths []float64
	for range queries {
		moment := l.machine.reading(between[0] + r.Uint64N(between[1]-between[0]))
		to := r.IntN(2)
		y, truth := truths[1-to].Reading(moment), truths[to].Reading(moment)
		mine, err := ours[to].Translate(y)
		if err != nil {
			return err
		}
		theirs, err := papers[to].Translate(y)
		if err != nil {
			return err
		}
		row.Queries++
		if !theirs.Contains(truth) {
			row.Outside++
		}
		if !mine.Contains(truth) {
			row.OursBeyond++
		}
		widths = append(widths, l.machine.Micros(float64(mine.Width())/2))
	}
	e0, _ := papers[0].E().Float64()
	e1, _ := papers[1].E().Float64()
	paper_us, ours_us := l.machine.Micros(min(e0, e1)), Median(widths)
	row.Paper_us, row.Ours_us = append(row.Paper_us, paper_us), append(row.Ours_us, ours_us)
	row.Ratios = append(row.Ratios, paper_us/ours_us)
	return nil
}
