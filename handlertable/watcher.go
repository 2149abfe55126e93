package handlertable

import "bytes"

// Watcher watches a table in a file that people edit while it is in use. It always returns the last
// good version: a bad one changes only the error. It reads the file at each look, because the
// file's time may not change, and reading costs microseconds. One goroutine at a time may use a
// Watcher.
type Watcher struct {
	path string
	read func(path string) ([]byte, error)

	table  *Table // the last good one
	looked bool   // the file has been read
	text   []byte // what was in it
	err    error  // what is wrong with that
}

// Watch reads the table for the first time. If there is an error, there is no table to begin with.
func Watch(path string) (*Watcher, error) { return watch(path, readFile) }

func watch(path string, read func(string) ([]byte, error)) (*Watcher, error) {
	w := &Watcher{path: path, read: read}
	if _, err := w.Look(); err != nil {
		return nil, err
	}
	return w, nil
}

// Table is the last good version.
func (w *Watcher) Table() *Table { return w.table }

// Look reads the file again and reports whether Table has changed. The error says why the file's
// present text is not in use. Look returns it each time until the file is mended.
func (w *Watcher) Look() (changed bool, err error) {
	text, err := w.read(w.path)
	if err != nil {
		return false, err
	}
	if w.looked && bytes.Equal(text, w.text) {
		return false, w.err
	}
	w.looked, w.text = true, text
	var table *Table
	if table, w.err = Parse(text, w.path); w.err != nil {
		return false, w.err
	}
	changed = w.table == nil || !bytes.Equal(table.Text(), w.table.Text())
	if changed {
		w.table = table
	}
	return changed, nil
}
