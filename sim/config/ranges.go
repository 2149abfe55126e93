package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxExperiments limits how many simulations a file can stand for.
const maxExperiments = 10_000

// A Choice is the value that a range gives to a key.
type Choice struct{ Key, Value string }

// Experiments returns the values of the ranges' keys for each simulation that the file stands for.
// A file without ranges stands for one simulation.
func (f *File) Experiments() ([][]Choice, error) {
	all := [][]Choice{nil}
	for _, name := range f.Names("range") {
		e := f.getEntry(name)
		key, list, ok := strings.Cut(e.value, ";")
		key = strings.TrimSpace(key)
		if !ok || key == "" {
			return nil, fmt.Errorf("%s:%d: range %q: want a key, a semicolon and values", f.Name,
				e.line, e.value)
		}
		values, err := f.listValues(list)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: range of key %q: %w", f.Name, e.line, key, err)
		}
		var next [][]Choice
		for _, choices := range all {
			for _, v := range values {
				next = append(next, append(choices[:len(choices):len(choices)], Choice{key, v}))
			}
		}
		if all = next; len(all) > maxExperiments {
			return nil, fmt.Errorf("%s:%d: the ranges stand for more than %d simulations", f.Name,
				e.line, maxExperiments)
		}
	}
	return all, nil
}

// listValues returns the values of a list such as 5,9:11,13:17|2,32:128|*2. In 13:17|2 each value
// is 2 more than the one before, and in 32:128|*2 it is twice the one before.
func (f *File) listValues(text string) (all []string, err error) {
	for item := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(item), ":")
		if !isRange {
			if from == "" {
				return nil, errors.New("a value is missing")
			}
			all = append(all, from)
			continue
		}
		to, step, stepped := strings.Cut(to, "|")
		// PeerSim's documentation writes max*|factor, and its code reads max|*factor.
		to, factor := strings.CutSuffix(to, "*")
		if rest, ok := strings.CutPrefix(step, "*"); ok {
			step, factor = rest, true
		}
		if !stepped {
			step = "1"
		}
		var v [3]numberValue
		for i, s := range []string{from, to, step} {
			if v[i], err = f.evaluate("range", s, 0); err != nil {
				return nil, err
			}
		}
		first, last, by := v[0].float(), v[1].float(), v[2].float()
		if factor && !(by > 1 && first > 0) || !factor && !(by > 0) {
			return nil, fmt.Errorf("%s never ends", quote(item))
		}
		whole := v[0].i != nil && v[2].i != nil
		for x := first; x <= last; {
			if len(all) > maxExperiments {
				return nil, fmt.Errorf("%s has more than %d values", quote(item), maxExperiments)
			}
			if whole {
				all = append(all, strconv.FormatInt(int64(x), 10))
			} else {
				all = append(all, strconv.FormatFloat(x, 'g', -1, 64))
			}
			if factor {
				x *= by
			} else {
				x += by
			}
		}
	}
	return all, nil
}
