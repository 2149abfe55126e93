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

// WriteWhole replaces a file at once: the old file stays until the new file is complete. If the
// path is not a regular file, but a pipe or a device, WriteWhole writes directly to it.
func WriteWhole(path string, text []byte) error {
	return Replace(path, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// Replace does what WriteWhole does. The function write writes the new content.
func Replace(path string, write func(io.Writer) error) error {
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		if !info.Mode().IsRegular() {
			f, err := os.OpenFile(path, os.O_WRONLY, mode)
			if err != nil {
				return err
			}
			return errors.Join(write(f), f.Close())
		}
		// Replace the file to which a link leads, not the link.
		if path, err = filepath.EvalSymlinks(path); err != nil {
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
	if err = errors.Join(write(f), f.Close()); err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return nil
}

// Draw writes an image to a file with WriteWhole.
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
