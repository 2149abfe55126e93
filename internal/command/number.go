package command

import (
	"fmt"
	"strings"
)

// Thousands writes a number so that its size is seen.
func Thousands(n uint64) string {
	text := fmt.Sprint(n)
	var groups []string
	for len(text) > 3 {
		groups = append([]string{text[len(text)-3:]}, groups...)
		text = text[:len(text)-3]
	}
	return strings.Join(append([]string{text}, groups...), ",")
}
