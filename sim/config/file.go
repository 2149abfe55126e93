package config

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// A File is a configuration. Only one goroutine may use it.
type File struct {
	Name    string
	entries map[string]*entry
	known   map[string]bool // keys for which somebody asked
	unused  map[string]bool // prefixes of components that an include key leaves out
	errs    []problem
}

type entry struct {
	key, value string
	line       int // 0: the entry is not from the file
	used       bool
}

type problem struct {
	line int
	err  error
}

const (
	maxLines      = 1 << 16
	maxLineLength = 1 << 16
)

// Parse reads a configuration. The parameter name is the file's name in errors.
func Parse(name string, r io.Reader) (*File, error) {
	f := &File{Name: name, entries: map[string]*entry{}, known: map[string]bool{},
		unused: map[string]bool{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLineLength)
	var prefixes []string
	last, number := "", 0
	pending := ""
	for lines.Scan() {
		number++
		if number > maxLines {
			return nil, fmt.Errorf("read %q: more than %d lines", name, maxLines)
		}
		line := strings.TrimSpace(lines.Text())
		if pending == "" && (line == "" || line[0] == '#' || line[0] == '!') {
			continue
		}
		if rest, ok := strings.CutSuffix(line, `\`); ok {
			pending += rest
			continue
		}
		line, pending = pending+line, ""
		prefix := ""
		if len(prefixes) > 0 {
			prefix = prefixes[len(prefixes)-1]
		}
		switch line {
		case "{":
			if last == "" {
				return nil, fmt.Errorf("read %q: line %d: no key stands before the brace", name,
					number)
			}
			prefixes = append(prefixes, last+".")
			continue
		case "}":
			if len(prefixes) == 0 {
				return nil, fmt.Errorf("read %q: line %d: this brace closes nothing", name, number)
			}
			prefixes = prefixes[:len(prefixes)-1]
			continue
		}
		key, value := splitLine(line)
		key = prefix + key
		if old := f.entries[key]; old != nil {
			return nil, fmt.Errorf("read %q: line %d: key %q was already given in line %d", name,
				number, key, old.line)
		}
		f.entries[key] = &entry{key: key, value: value, line: number}
		last = key
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read %q: line %d: %w", name, number+1, err)
	}
	if len(prefixes) > 0 {
		return nil, fmt.Errorf("read %q: a brace after key %q is not closed", name,
			strings.TrimSuffix(prefixes[len(prefixes)-1], "."))
	}
	return f, nil
}

// splitLine splits a line into key and value. A blank, = or : separates them.
func splitLine(line string) (key, value string) {
	i := strings.IndexAny(line, " \t\f=:")
	if i < 0 {
		return line, ""
	}
	key, value = line[:i], strings.TrimLeft(line[i:], " \t\f")
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = value[1:]
	}
	return key, strings.TrimSpace(value)
}

// Set sets a key, like an argument on the command line.
func (f *File) Set(key, value string) {
	line := 0
	if old := f.entries[key]; old != nil {
		line = old.line
	}
	f.entries[key] = &entry{key: key, value: value, line: line}
}

// Clone returns a copy of the keys and values, as if nobody had asked for a key yet.
func (f *File) Clone() *File {
	c := &File{Name: f.Name, entries: map[string]*entry{}, known: map[string]bool{},
		unused: map[string]bool{}}
	for k, e := range f.entries {
		c.entries[k] = &entry{key: k, value: e.value, line: e.line}
	}
	return c
}

// Rename lets files use an old name of a key, too.
func (f *File) Rename(old, new string) {
	if e := f.entries[old]; e != nil && f.entries[new] == nil {
		f.entries[new] = &entry{key: new, value: e.value, line: e.line}
		e.used = true
	}
}

// getEntry returns the entry of a key, and notes that the key was asked for.
func (f *File) getEntry(key string) *entry {
	f.known[key] = true
	e := f.entries[key]
	if e != nil {
		e.used = true
	}
	return e
}

// Has reports whether a key is given, with or without a value.
func (f *File) Has(key string) bool { return f.getEntry(key) != nil }

var nameCharacter = regexp.MustCompile(`[^\w]+`)

// Names returns the keys of all components of a kind, such as protocol.avg and protocol.link, in
// the order in which they are used.
func (f *File) Names(kind string) []string {
	var names []string
	for key := range f.entries {
		if rest, ok := strings.CutPrefix(key, kind+"."); ok && !strings.Contains(rest, ".") {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	list := func(e *entry) (given []string) {
		for _, n := range nameCharacter.Split(e.value, -1) {
			key := kind + "." + n
			switch {
			case n == "":
			case f.entries[key] == nil:
				f.fault(e.line, "key %q names %q, but there is no %q%s", e.key, n, key,
					f.suggestKey(key, slices.Values(names)))
			case !slices.Contains(given, key):
				given = append(given, key)
			}
		}
		return given
	}
	if e := f.getEntry("include." + kind); e != nil {
		f.getEntry("order." + kind)
		given := list(e)
		for _, n := range names {
			if !slices.Contains(given, n) {
				f.unused[n] = true
			}
		}
		names = given
	} else if e := f.getEntry("order." + kind); e != nil {
		given := list(e)
		for _, n := range names {
			if !slices.Contains(given, n) {
				given = append(given, n)
			}
		}
		names = given
	}
	for _, n := range names {
		f.getEntry(n)
	}
	return names
}

// Line returns the line of a key, or 0.
func (f *File) Line(key string) int {
	if e := f.entries[key]; e != nil {
		return e.line
	}
	return 0
}

func (f *File) fault(line int, format string, arguments ...any) {
	f.errs = append(f.errs, problem{line, fmt.Errorf(format, arguments...)})
}

// Fault notes that the value of a key is wrong.
func (f *File) Fault(key, format string, arguments ...any) {
	f.fault(f.Line(key), "key %q: %w", key, fmt.Errorf(format, arguments...))
}

// Missing notes that a key is not given.
func (f *File) Missing(key string) {
	f.known[key] = true
	component := key[:max(strings.LastIndex(key, "."), 0)]
	var mistaken []string // keys of the same component that nobody asked for
	for k, e := range f.entries {
		if !e.used && strings.HasPrefix(k, component+".") {
			mistaken = append(mistaken, k)
		}
	}
	slices.Sort(mistaken)
	if hint := f.suggestKey(key, slices.Values(mistaken)); hint != "" {
		f.fault(f.Line(component), "key %q is missing%s", key, hint)
		return
	}
	if f.Line(component) == 0 {
		f.fault(0, "key %q is missing: add a line with this key and its value", key)
		return
	}
	f.fault(f.Line(component), "key %q is missing", key)
}

// Err returns all mistakes, sorted by line. Call it after all keys were asked for.
func (f *File) Err() error {
	all := slices.Clone(f.errs)
	for _, key := range slices.Sorted(maps.Keys(f.entries)) {
		e := f.entries[key]
		if constant := !strings.Contains(key, "."); e.used || f.leftOut(key) ||
			constant && e.line > 0 { // a file may have constants that it does not use
			continue
		}
		all = append(all, problem{e.line, fmt.Errorf("key %q is unknown%s", key,
			f.suggestOf(key, f.knownKeys()))})
	}
	slices.SortStableFunc(all, func(a, b problem) int { return a.line - b.line })
	all = slices.CompactFunc(all, func(a, b problem) bool {
		return a.line == b.line && a.err.Error() == b.err.Error()
	})
	var errs []error
	for _, p := range all {
		if p.line > 0 {
			errs = append(errs, fmt.Errorf("%s:%d: %w", f.Name, p.line, p.err))
		} else {
			errs = append(errs, fmt.Errorf("%s: %w", f.Name, p.err))
		}
	}
	return errors.Join(errs...)
}

// knownKeys returns all keys that mean something: those for which somebody asked, and those that
// are used in another way, such as in an expression.
func (f *File) knownKeys() []string {
	all := slices.Collect(maps.Keys(f.known))
	for key, e := range f.entries {
		if e.used && !f.known[key] {
			all = append(all, key)
		}
	}
	return all
}

// LeaveOut says that a component is not used, so its parameters cause no errors.
func (f *File) LeaveOut(component string) { f.unused[component] = true }

// leftOut reports whether a key belongs to a component that an include key leaves out.
func (f *File) leftOut(key string) bool {
	for i, c := range key {
		if c == '.' && f.unused[key[:i]] {
			return true
		}
	}
	return f.unused[key]
}
