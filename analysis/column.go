package analysis

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// None marks a bin without a value: null in JSON.
const None = math.MinInt64

// Column is one value for each bin of the time axis.
type Column []int64

// MarshalJSON writes None as null.
func (c Column) MarshalJSON() ([]byte, error) {
	text := make([]byte, 0, 8*len(c)+2)
	text = append(text, '[')
	for i, v := range c {
		if i > 0 {
			text = append(text, ',')
		}
		if v == None {
			text = append(text, "null"...)
		} else {
			text = strconv.AppendInt(text, v, 10)
		}
	}
	return append(text, ']'), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Column) UnmarshalJSON(text []byte) error {
	var values []*int64
	if err := json.Unmarshal(text, &values); err != nil {
		return fmt.Errorf("read column: %w", err)
	}
	*c = make(Column, len(values))
	for i, v := range values {
		(*c)[i] = None
		if v != nil {
			(*c)[i] = *v
		}
	}
	return nil
}

// presentValues returns the column's values in rising order, without the bins that have no value.
func (c Column) presentValues() []int64 {
	values := slices.Clone(c)
	values = slices.DeleteFunc(values, func(v int64) bool { return v == None })
	slices.Sort(values)
	return values
}

// emptyColumn is a column without any value.
func emptyColumn(bins int) Column { return slices.Repeat(Column{None}, bins) }
