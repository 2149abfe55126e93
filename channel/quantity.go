package channel

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// units are the factors that may follow a number. They are decimal or binary, with or without a B
// for bytes.
var units = map[string]uint64{
	"": 1, "b": 1,
	"k": 1e3, "kb": 1e3, "ki": 1 << 10, "kib": 1 << 10,
	"m": 1e6, "mb": 1e6, "mi": 1 << 20, "mib": 1 << 20,
	"g": 1e9, "gb": 1e9, "gi": 1 << 30, "gib": 1 << 30,
	"t": 1e12, "tb": 1e12, "ti": 1 << 40, "tib": 1 << 40,
}

// ParseCount reads a whole number that is not negative, or a string with such a number and a unit:
// "10", "64Ki", "10KB", "1 MiB". The error wraps ErrParameter.
func ParseCount(v any) (uint64, error) {
	switch v := v.(type) {
	case string:
		return parseCountString(v)
	case uint64:
		return v, nil
	case float64: // JSON and some YAML readers give a number this type
		if v >= 0 && v < 1<<53 && v == float64(uint64(v)) {
			return uint64(v), nil
		}
	default:
		// Format a number of another integer type and parse its decimal form.
		if n, err := strconv.ParseUint(fmt.Sprint(v), 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("read %v: not a whole number of 0 or more: %w", v, ErrParameter)
}

func parseCountString(s string) (uint64, error) {
	text := strings.TrimSpace(s)
	end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(text)
	}
	n, err := strconv.ParseUint(text[:end], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read %.40q: not a whole number of 0 or more, such as 10, 64Ki "+
			"or 10KB: %w", s, ErrParameter)
	}
	unit, known := units[strings.ToLower(strings.TrimSpace(text[end:]))]
	if !known {
		return 0, fmt.Errorf("read %.40q: unknown unit %.40q: use K, M, G, T (×1000) or Ki, Mi, "+
			"Gi, Ti (×1024), with or without B: %w", s, text[end:], ErrParameter)
	}
	high, low := bits.Mul64(n, unit)
	if high != 0 {
		return 0, fmt.Errorf("read %.40q: above %d: %w", s, uint64(1<<64-1), ErrParameter)
	}
	return low, nil
}

// parsePeriod reads a duration: "500ms", or a number of nanoseconds.
func parsePeriod(v any) (uint64, error) {
	if d, ok := v.(time.Duration); ok {
		v = int64(d)
	}
	s, ok := v.(string)
	if !ok {
		return ParseCount(v)
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("read %.40q: not a duration such as 500ms or 1s: %w", s, ErrParameter)
	}
	return uint64(d), nil
}
