package link

import (
	"math"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// Said is the least probability at which a link is shown as known. A less probable link is shown as
// undecided, with its runner-up.
const Said = 0.9

// Sure is the least probability of a link that counts as sure.
const Sure = 0.99

// A Score is how good links are.
type Score struct {
	Links int `json:"links"` // calls whose true cause is known
	Right int `json:"right"` // calls whose most probable cause is the true cause

	// A path is an outer request, and all calls that it led to. The path is right if the most
	// probable causes join the same calls in the same way, and no other calls.
	Paths      int `json:"paths"`
	PathsRight int `json:"paths_right"`

	Said      int `json:"said"` // links with probability Said or more
	SaidWrong int `json:"said_wrong"`
	Sure      int `json:"sure"` // links with probability Sure or more
	SureWrong int `json:"sure_wrong"`

	// Calibration is the expected calibration error: how much the probability differs from the
	// share of right links, among links of similar probability.
	Calibration float64 `json:"calibration_error"`
	// Chance is the calibration error that right probabilities have on average, because the number
	// of links is limited. It takes links as independent of each other.
	Chance float64 `json:"calibration_error_by_chance"`
}

const bands = 20

// A Judgement compares links with the truth, set by set.
type Judgement struct {
	score Score
	said  [bands]float64 // sums of probabilities
	right [bands]float64
	vary  [bands]float64 // variance of right, if the probabilities are right
}

// Judge compares links with the truth.
func Judge(set *calls.Set, links []Link) Score {
	var j Judgement
	j.Add(set, links)
	return j.Score()
}

// Add compares the links of one more set with the set's truth. A cause below 0 means that none of
// the set's calls is the cause.
func (j *Judgement) Add(set *calls.Set, links []Link) {
	s := &j.score
	wrong := make([]bool, set.Paths)
	some := make([]bool, set.Paths)
	for i := range links {
		if set.Calls[i].Caller < 0 {
			some[set.Path[i]] = true
			continue
		}
		truth, l := set.Cause[i], &links[i]
		if truth == calls.UnknownCause {
			continue
		}
		some[set.Path[i]] = true
		s.Links++
		band := min(int(l.Probability*bands), bands-1)
		j.said[band] += l.Probability
		j.vary[band] += l.Probability * (1 - l.Probability)
		ok := l.Cause == truth
		if ok {
			s.Right++
			j.right[band]++
		} else {
			wrong[set.Path[i]] = true
			if l.Cause >= 0 {
				wrong[set.Path[l.Cause]] = true
			}
		}
		if l.Probability >= Said {
			s.Said++
			s.SaidWrong += count(!ok)
		}
		if l.Probability >= Sure {
			s.Sure++
			s.SureWrong += count(!ok)
		}
	}
	for i := range wrong {
		s.Paths += count(some[i])
		s.PathsRight += count(some[i] && !wrong[i])
	}
}

// Score returns how good all links were.
func (j *Judgement) Score() Score {
	s := j.score
	for i := range j.said {
		if d := j.said[i] - j.right[i]; d > 0 {
			s.Calibration += d
		} else {
			s.Calibration -= d
		}
		s.Chance += math.Sqrt(2 / math.Pi * j.vary[i]) // the mean of |x| if x is normal
	}
	if s.Links == 0 {
		return Score{} // without links, no path tells how good the links are
	}
	s.Calibration /= float64(s.Links)
	s.Chance /= float64(s.Links)
	return s
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}
