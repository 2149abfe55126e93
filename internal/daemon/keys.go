package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"

	"github.com/cloudprofiler/cloudprofiler/internal/similar"
)

// Keys returns the names of a configuration's keys, as the file spells them.
func Keys[C any]() (all []string) {
	t := reflect.TypeFor[C]()
	for i := range t.NumField() {
		all = append(all, t.Field(i).Tag.Get("mapstructure"))
	}
	return all
}

func flagOf(key string) string { return strings.ReplaceAll(key, "_", "-") }

// checkKeys names each key of a configuration's file that is unknown or appears twice, with its
// line and, for an unknown key, the nearest known key.
func checkKeys(text []byte, known []string) error {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil || len(document.Content) == 0 {
		return err
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: want keys and values, such as %q", root.Line, known[0]+": …")
	}
	lines := map[string]int{}
	var errs []error
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, line := root.Content[i].Value, root.Content[i].Line
		lower := strings.ToLower(key)
		near := similar.Word(lower, slices.Values(known))
		switch {
		case lines[lower] > 0:
			errs = append(errs, fmt.Errorf("line %d: %q is already in line %d: remove one",
				line, key, lines[lower]))
		case slices.Contains(known, lower):
		case near != "":
			errs = append(errs, fmt.Errorf("line %d: there is no key %q: did you mean %q?",
				line, key, near))
		default:
			errs = append(errs, fmt.Errorf("line %d: there is no key %q: use one of %s",
				line, key, strings.Join(known, ", ")))
		}
		lines[lower] = line
	}
	return errors.Join(errs...)
}

// ReadableBy returns an error if a user could not read the file that a setting names. ReadableBy
// considers only the user's primary group. A process of root calls ReadableBy before it becomes
// that user.
func ReadableBy(s Setting, name string) error {
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			return fmt.Errorf("user %q: there is no such user: name one whose programs log", name)
		}
	}
	path, err := filepath.Abs(s.Value)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Key, err)
	}
	for need, at := uint32(4), path; ; need, at = 1, filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Key, err)
		}
		if owner, ok := info.Sys().(*syscall.Stat_t); ok && !permits(owner, u, need) {
			what, remedy := "read it", fmt.Sprintf("chown %s %s", name, path)
			if at != path {
				what = fmt.Sprintf("enter %q", at)
				remedy = fmt.Sprintf("chmod a+x %s, or move the file", at)
			}
			return fmt.Errorf("%s %q: user %q cannot %s: %s", s.Key, s.Value, name, what, remedy)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// permits reports whether a file's mode gives the user a right: 4 to read, 1 to enter.
func permits(file *syscall.Stat_t, u *user.User, need uint32) bool {
	switch {
	case u.Uid == "0":
		return true
	case u.Uid == strconv.FormatUint(uint64(file.Uid), 10):
		need <<= 6
	case u.Gid == strconv.FormatUint(uint64(file.Gid), 10):
		need <<= 3
	}
	return file.Mode&need != 0
}
