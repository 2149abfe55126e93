package report

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
)

// ErrData is returned for data that no page can show as they are.
var ErrData = errors.New("unusable report data")

// exact is the largest whole number that every reader of JSON holds exactly.
const exact = 1<<53 - 1

// Check names the first thing that a page would show wrongly. The error wraps ErrData.
func (d *Data) Check() error {
	if d.Version != Version {
		return fmt.Errorf("check report: version %d, this program writes %d: %w", d.Version, Version, ErrData)
	}
	if d.Timeline.Buckets < 0 || d.Timeline.Buckets > 0 && d.Timeline.Bucket_cycles <= 0 {
		return fmt.Errorf("check report: timeline of %d buckets of %d cycles: %w", d.Timeline.Buckets, d.Timeline.Bucket_cycles, ErrData)
	}
	ids := map[string]bool{}
	for _, s := range d.Stretches {
		if ids[s.ID] {
			return fmt.Errorf("check report: two stretches have the id %q: %w", s.ID, ErrData)
		}
		ids[s.ID] = true
	}
	for i, r := range d.Routes {
		for _, of := range r.Made_of {
			if of < 0 || of >= len(d.Routes) {
				return fmt.Errorf("check report: route %d is made of route %d of %d: %w", i, of, len(d.Routes), ErrData)
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
	case Span:
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
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if err := d.checkValue(fmt.Sprintf("%s[%d]", where, i), v.Index(i), ""); err != nil {
				return err
			}
		}
	case reflect.Int64:
		n := v.Int()
		if isString := strings.Contains(tag.Get("json"), ",string"); !isString && n != None && (n > exact || n < -exact) {
			return fail("%d is more than a number in JSON holds exactly", n)
		}
	case reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return fail("%v is no number", f)
		}
	}
	return nil
}
