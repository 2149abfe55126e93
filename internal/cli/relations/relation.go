package relations

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

func newRelation() *cobra.Command {
	cmd := &cobra.Command{
		Use: "relation",
		Short: "Show or draw a stored relation of two nodes' counters, or translate readings " +
			"with it",
		Long: `Show or draw a stored relation of two nodes' counters, or translate readings with it.

A relation file (.rel) contains what packets proved about two counters, and the assumptions. It
contains no answers: each command computes its answer anew. You can choose another wander, or cycles
of the other node. "cprof relate" makes a relation file, and every run contains relation files.`,
		Example: `  cprof relation show a--b.rel
  cprof relation plot a--b.rel
  cprof relation translate a--b.rel 90872340987234`,
	}
	cmd.AddCommand(newRelationShow(), newRelationTranslate(), newRelationPlot())
	return cmd
}

// relationFlags contains the flags that say how to compute a relation from a file of constraints.
type relationFlags struct {
	into   string
	wander command.WanderFlag
	with   []string
}

func (f *relationFlags) add(cmd *cobra.Command) {
	cmd.Flags().Var(&f.wander, "wander", "compute with this `wander`, such as 0.2ppm or 50ppb, "+
		"instead of the declared one")
	cmd.Flags().StringArrayVar(&f.with, "with", nil, "add the constraints in this `file` of the "+
		"same two nodes; may be repeated")
}

func (f *relationFlags) addInto(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.into, "into", "", "give counts in cycles of this `node` (default: "+
		"the file's first)")
}

// maxRelationBytes is the largest size of a relation file that is read. It is far more than the
// size of a file of many days.
const maxRelationBytes = 1 << 30

// readPair reads a relation file, and merges the other files into its pair.
func readPair(file string, with []string) (*tscratio.Pair, error) {
	pair, err := readPairFile(file)
	if err != nil {
		return nil, err
	}
	for _, other := range with {
		more, err := readPairFile(other)
		if err != nil {
			return nil, err
		}
		if err := pair.Merge(more); errors.Is(err, tscratio.ErrEpoch) {
			return nil, fmt.Errorf("add %q to %q: %w: a counter was reset in between, and what "+
				"was measured before says nothing about after: look at each file alone",
				other, file, err)
		} else if err != nil {
			return nil, fmt.Errorf("add %q to %q: %w: only files of the same two nodes, measured "+
				"under the same assumptions, fit together", other, file, err)
		}
	}
	return pair, nil
}

func readPairFile(file string) (*tscratio.Pair, error) {
	data, err := plainfile.Read(file, maxRelationBytes)
	if errors.Is(err, plainfile.ErrNotRegular) {
		return nil, fmt.Errorf("read relation: %w: give one that ends in .rel", err)
	}
	if err != nil {
		return nil, fmt.Errorf("read relation: %w", err)
	}
	pair, err := tscratio.DecodePair(data)
	if err != nil {
		return nil, fmt.Errorf("read relation %q: %w%s", file, err, relationRemedy(err))
	}
	return pair, nil
}

// relationRemedy says what the user can do about a file that cannot be read.
func relationRemedy(err error) string {
	switch {
	case errors.Is(err, tscratio.ErrNotPair):
		return `: give a file that "cprof relate" wrote, or one of a run's relations/`
	case errors.Is(err, tscratio.ErrVersion):
		return ": a later cprof wrote it: use that one"
	case errors.Is(err, tscratio.ErrTorn):
		return ": it was written or copied in part; copy it again from where it was made, or " +
			"measure again"
	case errors.Is(err, tscratio.ErrChecksum):
		return ": it was damaged; copy it again from where it was made, or measure again"
	}
	return ""
}

// relate computes the relation of a pair as the flags demand.
func (f *relationFlags) relate(pair *tscratio.Pair) (*tscratio.Relation, error) {
	into, err := sideOf(pair, f.into, tscratio.SideA, "--into")
	if err != nil {
		return nil, err
	}
	return f.relateInto(pair, into)
}

func (f *relationFlags) relateInto(pair *tscratio.Pair, into tscratio.Side) (*tscratio.Relation,
	error) {
	w := pair.Declared.Wander
	if f.wander.Given {
		w = f.wander.Value
	}
	r, err := pair.Relate(into, w)
	if err != nil {
		return nil, explainRelate(err, w, pair.Declared.MaxWander)
	}
	return r, nil
}

// explainRelate adds advice for the user to an error of tscratio's method Relate.
func explainRelate(err error, w, most tscratio.Wander) error {
	var refuted *tscratio.RefutedError
	switch {
	case errors.As(err, &refuted):
		return fmt.Errorf("%w: an assumption is broken there (see docs/relations.md): no bound "+
			"can be given", err)
	case errors.Is(err, tscratio.ErrWanderAboveMax):
		return fmt.Errorf("%w: give --wander %v or less, or measure again with more", err, most)
	case errors.Is(err, tscratio.ErrTooFew):
		return fmt.Errorf("%w: measure for longer: a relation lies between two trains", err)
	}
	return err
}

// sideOf returns the side (A or B) of the pair's node that has the given name. If the name is
// empty, it returns the parameter other.
func sideOf(pair *tscratio.Pair, name string, other tscratio.Side, flag string) (tscratio.Side,
	error) {
	switch name {
	case "":
		return other, nil
	case pair.A.Name:
		return tscratio.SideA, nil
	case pair.B.Name:
		return tscratio.SideB, nil
	}
	return 0, command.Usagef("%s %q: the relation is of %q and %q", flag, name, pair.A.Name,
		pair.B.Name)
}

// toMicroseconds converts a bound in cycles of a node to microseconds, rounded up. It uses the
// node's nominal rate, because a relation contains no measured frequency.
func toMicroseconds(n tscratio.Node, cycles float64) float64 {
	return command.RoundUp(cycles/float64(n.Nominal_hz)*1e6, 6)
}

// A summary contains what commands print about a pair and its relation.
type summary struct {
	pair     *tscratio.Pair
	relation *tscratio.Relation // nil if there is no relation
	why      error              // why there is no relation

	trains, byA, exchanges, gathered, kept int
	stamps                                 tscratio.Stamps
	span                                   time.Duration
	// halves_us contains half-widths of bounds at evenly spread readings, sorted.
	halves_us       []float64
	rate            tscratio.Elapsed
	rateOver_cycles uint64
	first           uint64 // the reading of From at which constraints begin
}

const boundSamples = 1000

func summarize(pair *tscratio.Pair, relation *tscratio.Relation, why error) *summary {
	s := &summary{pair: pair, relation: relation, why: why, kept: pair.Constraints()}
	var b tscratio.Interval
	for k := range pair.Kept() {
		s.trains++
		if k.By == tscratio.StartedByA {
			s.byA++
		}
		s.exchanges += k.Exchanges
		gathered := k.Gathered
		if gathered == 0 { // the file does not store this number
			gathered = max(2*k.Exchanges, len(k.Constraints))
		}
		s.gathered += gathered
		s.stamps.Kernel += k.Stamps.Kernel
		s.stamps.User += k.Stamps.User
		s.stamps.Shared += k.Stamps.Shared
		if s.trains == 1 {
			b = k.B
		}
		b = tscratio.Interval{Lo: min(b.Lo, k.B.Lo), Hi: max(b.Hi, k.B.Hi)}
	}
	s.span = time.Duration(float64(b.Width()) / float64(pair.B.Nominal_hz) * 1e9)
	if relation == nil {
		return s
	}
	knots := relation.Knots()
	first, last := knots[0].Reading, knots[len(knots)-1].Reading
	s.first = first
	for i := range uint64(boundSamples) {
		if at, err := relation.Translate(first + (last-first)/boundSamples*i); err == nil {
			s.halves_us = append(s.halves_us, toMicroseconds(relation.Into, float64(at.Width())/2))
		}
	}
	slices.Sort(s.halves_us)
	if rate, err := relation.SameNode(first, last); err == nil && last > first {
		s.rate, s.rateOver_cycles = rate, last-first
	}
	return s
}

// quantile returns the value below which the share q of the sorted values lies.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// meanRate returns the mean rate over the whole span, to show to people.
func (s *summary) meanRate() (lo, hi float64, ok bool) {
	if s.rateOver_cycles == 0 {
		return 0, 0, false
	}
	over := float64(s.rateOver_cycles)
	return float64(s.rate.Lo) / over, float64(s.rate.Hi) / over, true
}

// verdict returns one word for tables.
func (s *summary) verdict() string {
	if s.relation == nil {
		return "none"
	}
	return s.relation.Verdict.String()
}

// contradictions returns pairs of constraints that cannot both hold unless counters wander more
// than was assumed. If there are none, it returns nil.
func (s *summary) contradictions() []tscratio.Contradiction {
	var refuted *tscratio.RefutedError
	switch {
	case s.relation != nil:
		return s.relation.Contradictions
	case errors.As(s.why, &refuted):
		return refuted.Contradictions
	}
	return nil
}

// err returns the error with which a command ends after it has printed the summary, or nil.
func (s *summary) err() error {
	switch {
	case s.relation == nil:
		return fmt.Errorf("no bound: %w", s.why)
	case s.relation.Verdict == tscratio.Suspect:
		return fmt.Errorf("the data refute, or all but refute, a wander of %v: bounds are "+
			"estimates, computed with %v: %w",
			s.pair.Declared.Wander, s.relation.Wander, command.ErrPartial)
	}
	return nil
}
