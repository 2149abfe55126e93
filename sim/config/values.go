package config

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

func (f *File) suggestOf(wrong string, names []string) string {
	slices.Sort(names)
	return f.suggestKey(wrong, slices.Values(names))
}

// numberOf returns the value of a key. The result is false if the key is not given, or if its value
// is wrong. A wrong value is noted as an error.
func (f *File) numberOf(key string) (numberValue, bool) {
	e := f.getEntry(key)
	if e == nil {
		return numberValue{}, false
	}
	if e.value == "" {
		f.Fault(key, "a number is missing")
		return numberValue{}, false
	}
	v, err := f.evaluate(key, e.value, 0)
	if err != nil {
		f.Fault(key, "%w", err)
		return numberValue{}, false
	}
	return v, true
}

// Int returns the integer of a key, which must lie between two limits. If the key is not given, it
// returns the last parameter.
func (f *File) Int(key string, least, most, otherwise int64) int64 {
	v, ok := f.numberOf(key)
	if !ok {
		return otherwise
	}
	n := int64(0)
	switch {
	case v.i != nil && v.i.IsInt64():
		n = v.i.Int64()
	case v.i == nil && math.Abs(v.f) < 1<<62:
		n = int64(v.f) // as PeerSim does
	default:
		f.Fault(key, "%s is too large", quote(f.entries[key].value))
		return otherwise
	}
	if n < least || n > most {
		limits := fmt.Sprintf("%d to %d", least, most)
		if most > math.MaxInt64/8 {
			limits = fmt.Sprintf("%d or more", least)
			if n > most {
				limits = fmt.Sprintf("at most %d", most)
			}
		}
		f.Fault(key, "%s is %d: want %s", quote(f.entries[key].value), n, limits)
		return otherwise
	}
	return n
}

// MustInt returns the integer of a key. The key must be given.
func (f *File) MustInt(key string, least, most int64) int64 {
	if !f.Has(key) {
		f.Missing(key)
		return least
	}
	return f.Int(key, least, most, least)
}

// Float returns the number of a key, which must lie between two limits. If the key is not given, it
// returns the last parameter.
func (f *File) Float(key string, least, most, otherwise float64) float64 {
	v, ok := f.numberOf(key)
	if !ok {
		return otherwise
	}
	n := v.float()
	if !(n >= least && n <= most) {
		f.Fault(key, "%s is %v: want %v to %v", quote(f.entries[key].value), n, least, most)
		return otherwise
	}
	return n
}

// MustFloat returns the number of a key. The key must be given.
func (f *File) MustFloat(key string, least, most float64) float64 {
	if !f.Has(key) {
		f.Missing(key)
		return least
	}
	return f.Float(key, least, most, least)
}

// Text returns the text of a key. If the key is not given, it returns the last parameter.
func (f *File) Text(key, otherwise string) string {
	if e := f.getEntry(key); e != nil {
		return e.value
	}
	return otherwise
}

// MustText returns the text of a key. The key must be given.
func (f *File) MustText(key string) string {
	e := f.getEntry(key)
	if e == nil || e.value == "" {
		f.Missing(key)
		return ""
	}
	return e.value
}

// OneOf returns the text of a key, which must be one of the choices. If the key is not given, OneOf
// returns the first choice.
func (f *File) OneOf(key string, choices ...string) string {
	text := f.Text(key, choices[0])
	if !slices.Contains(choices, text) {
		f.Fault(key, "%s is not one of %s", quote(text), strings.Join(choices, ", "))
		return choices[0]
	}
	return text
}

// Class returns the name of a component's class, without its package.
func (f *File) Class(key string) string {
	name := f.MustText(key)
	return name[strings.LastIndex(name, ".")+1:]
}

// Sum returns a checksum of all keys and values.
func (f *File) Sum() (sum [32]byte) {
	h := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(f.entries)) {
		fmt.Fprintf(h, "%q %q\n", key, f.entries[key].value)
	}
	h.Sum(sum[:0])
	return sum
}
