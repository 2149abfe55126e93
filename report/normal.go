package report

import "reflect"

// fillSlices turns nil slices into empty slices, so that a reader of the JSON finds only lists.
func fillSlices(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillSlices(v.Field(i))
		}
	case reflect.Slice:
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for i := range v.Len() {
			fillSlices(v.Index(i))
		}
	}
}
