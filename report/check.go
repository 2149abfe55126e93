package report

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"strings"
)

// ErrData is returned for data that a page cannot show as they are.
var ErrData = errors.New("unusable report data")

// Every reader of JSON represents all whole numbers up to this one exactly. A larger number is
// represented exactly only if at most 53 binary digits are left when its trailing zeros are
// removed.
const maxExact = 1<<53 - 1

// roundDown is the largest number up to v that every reader of JSON represents exactly.
func roundDown(v int64) int64 {
	magnitude := uint64(v)
	if v < 0 {
		magnitude = -magnitude
	}
	zeros := max(bits.Len64(magnitude)-53, 0)
	return v >> zeros << zeros
}

// roundUp returns the smallest number, v or above, that every reader of JSON represents exactly. If
// v is too near the largest 64-bit number, there is no such number. In this case roundUp returns
// the largest number that every reader represents exactly.
func roundUp(v int64) int64 {
	if v > math.MaxInt64-1<<10 {
		return roundDown(math.MaxInt64)
	}
	return -roundDown(-v)
}

// Check returns an error for the first value that a page would show wrongly. The error wraps
// ErrData.
func (d *Data) Check() error {
	if d.Version != Version {
		return fmt.Errorf("check report: version %d, this program writes %d: %w",
			d.Version, Version, ErrData)
	}
	if d.Timeline.Buckets < 0 || d.Timeline.Buckets > 0 && d.Timeline.Bucket_cycles <= 0 {
		return fmt.Errorf("check report: timeline of %d buckets of %d cycles: %w",
			d.Timeline.Buckets, d.Timeline.Bucket_cycles, ErrData)
	}
	ids := map[string]bool{}
	for _, s := range d.Spans {
		if ids[s.ID] {
			return fmt.Errorf("check report: two spans have the id %q: %w", s.ID, ErrData)
		}
		ids[s.ID] = true
	}
	for i, r := range d.Paths {
		for _, of := range r.Made_of {
			if of < 0 || of >= len(d.Paths) {
				return fmt.Errorf("check report: path %d is made of path %d of %d: %w",
					i, of, len(d.Paths), ErrData)
			}
		}
	}
	return d.checkValue("data", reflect.ValueOf(*d), "")
}

func (d *Data) checkValue(where string, v reflect.Value, tag reflect.StructTag) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("check report: %s: %s: %w", where, fmt.Sprintf(format, args...), ErrData)
	}
	switch value := v.Interface().(type) {
	case Column:
		if len(value) > 0 && len(value) != d.Timeline.Buckets {
			return fail("%d values for %d buckets", len(value), d.Timeline.Buckets)
		}
	case Interval:
		if value.Lo_cycles > value.Hi_cycles {
			return fail("low end %d above high end %d", value.Lo_cycles, value.Hi_cycles)
		}
	case Percentile:
		if value.Lo_cycles > value.Hi_cycles {
			return fail("low end %d above high end %d", value.Lo_cycles, value.Hi_cycles)
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if err := d.checkValue(where+"."+f.Name, v.Field(i), f.Tag); err != nil {
				return err
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return d.checkValue(where, v.Elem(), tag)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if err := d.checkValue(fmt.Sprintf("%s[%d]", where, i), v.Index(i), ""); err != nil {
				return err
			}
		}
	case reflect.Int64:
		n := v.Int()
		if isString := strings.Contains(tag.Get("json"), ",string"); !isString && n != None &&
			n != roundDown(n) {
			return fail("%d is more than a number in JSON holds exactly", n)
		}
	case reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return fail("%v is no number", f)
		}
	}
	return nil
}
