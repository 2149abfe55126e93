package link

// A memo has the scores of scripts that were tried lately, because a sharing tries the same scripts
// again and again. Each script has a name, which depends on its request and on the set of its
// calls. Two scripts have the same name only by chance, once in 2^63 times.
type memo struct {
	all   [1 << memoBits]remembered // each name has one place, by its first bits
	model uint64                    // is part of all names, and changes with the model
}

const memoBits = 13

// A remembered is the score of a script. The last bit of the name is 1 if the walk through the
// script stopped early: then the whole score is not known, but it would be below any limit that is
// above the remembered score.
type remembered struct {
	name  uint64
	score float64
}

const (
	golden  = 0x9e3779b97f4a7c15
	stopped = 1
)

// forget forgets all scores. It must be called after the model has changed.
func (m *memo) forget() { m.model += golden }

// saltsOf returns the part that calls have in the name of a script.
func saltsOf(all []int32) (sum uint64) {
	for _, c := range all {
		sum += saltOf(c)
	}
	return sum
}

func saltOf(c int32) uint64 {
	d := dice(uint64(c) * golden)
	return d.next()
}

// scoreWith returns the score that the script of a request would have without some of its calls and
// with others, or, if that score is below least, any number below least. The parameter moved is by
// how much the script's name would change.
func (s *sharing) scoreWith(r int32, moved uint64, without, with []int32, least float64) float64 {
	name := (s.names[r] + moved + s.memo.model) &^ stopped
	at := &s.memo.all[name>>(64-memoBits)]
	if at.name == name || at.name == name|stopped && at.score < least {
		return at.score
	}
	s.script = s.copyExchanged(s.script[:0], s.scripts[r], without, with)
	score := s.scoreOf(r, s.script, least)
	if score < least {
		name |= stopped
	}
	*at = remembered{name, score}
	return score
}
