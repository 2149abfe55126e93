package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteWhole replaces a file at once: the old file stays until the new file is complete. It writes
// directly to a path that is not a regular file, such as a pipe or a device.
func WriteWhole(path string, text []byte) error {
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		if !info.Mode().IsRegular() {
			return os.WriteFile(path, text, mode)
		}
		if path, err = filepath.EvalSymlinks(path); err != nil { // a link stays a link
			return err
		}
		mode = info.Mode().Perm()
	}
	part := path + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return nil
}

// Draw writes an image with WriteWhole.
func Draw(path string, write func(io.Writer) error) error {
	var image bytes.Buffer
	err := write(&image)
	if err == nil {
		err = WriteWhole(path, image.Bytes())
	}
	if err != nil {
		return fmt.Errorf("draw to %q: %w", path, err)
	}
	return nil
}
