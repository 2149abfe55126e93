package handlertable

import "bytes"

// Watcher watches a table in a file that people edit while the table is in use. Table always
// returns the last valid version of the table. If a new version is not valid, only the error of
// Look says so.
//
// Look always reads the file: the file's time does not change with every edit, and reading takes
// only microseconds. One goroutine at a time may use a Watcher.
type Watcher struct {
	path string
	read func(path string) ([]byte, error)

	table     *Table // the last valid version
	hasLooked bool   // true if Look or Watch has read the file
	text      []byte // the text that Look read last
	err       error  // what is wrong with text
}

// Watch reads the table for the first time. If the table is not valid, Watch returns only an error.
func Watch(path string) (*Watcher, error) { return watch(path, readFile) }

func watch(path string, read func(string) ([]byte, error)) (*Watcher, error) {
	w := &Watcher{path: path, read: read}
	if _, err := w.Look(); err != nil {
		return nil, err
	}
	return w, nil
}

// Table returns the last valid version.
func (w *Watcher) Table() *Table { return w.table }

// Look reads the file again and reports whether the table that Table returns has changed. If the
// file's present text is not valid, the error says why. Every Look returns this error until
// somebody corrects the file.
func (w *Watcher) Look() (changed bool, err error) {
	text, err := w.read(w.path)
	if err != nil {
		return false, err
	}
	if w.hasLooked && bytes.Equal(text, w.text) {
		return false, w.err
	}
	w.hasLooked, w.text = true, text
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
