package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/ring"
)

func newRingSalvage() *cobra.Command {
	var dir, to string
	var keep bool
	cmd := &cobra.Command{
		Use:   "salvage [RING...]",
		Short: "Move what dead programs left in rings into files",
		Long: `Move what dead programs left in rings into files, one for each ring, as "cprof ring dump" prints it. A ring is removed once
its file is safe on disk. Live rings are left alone, and nothing is done while an agent drains the directory: it does
the same.

Without RING every orphan is taken. RING is a file, or the start of a channel's name or of an incarnation.
Exit code 3: some ring could not be rescued; the others were.`,
		Example: "  cprof ring salvage --to ./rescued\n  cprof ring salvage parser --keep",
		RunE: func(cmd *cobra.Command, args []string) error {
			return salvageRings(cmd.OutOrStdout(), dir, to, keep, args)
		},
	}
	addDirFlag(cmd, &dir)
	cmd.Flags().StringVar(&to, "to", ".", "directory for the files")
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the rings where they are")
	return cmd
}

func salvageRings(w io.Writer, dir, to string, keep bool, words []string) error {
	files, err := ringFiles(&dir)
	if err != nil {
		return err
	}
	if len(words) > 0 {
		files = nil
		for _, word := range words {
			file, err := chooseRing(dir, word)
			if err != nil {
				return err
			}
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		fmt.Fprintf(w, "no rings in %s\n", dir)
		return nil
	}
	lock, err := ring.LockDirectory(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := os.MkdirAll(to, 0o700); err != nil {
		return fmt.Errorf("salvage rings to %q: %w", to, err)
	}
	var failed, live int
	for _, file := range files {
		saved, events, err := salvageRing(file, to, keep)
		switch {
		case err != nil:
			failed++
			fmt.Fprintf(w, "cannot rescue: %v\n", err)
		case saved == "":
			live++
		default:
			fmt.Fprintf(w, "%d events to %s\n", events, saved)
		}
	}
	if live > 0 {
		fmt.Fprintf(w, "%d live rings left alone\n", live)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d rings could not be rescued: %w", failed, len(files), errPartial)
	}
	return nil
}

// salvageRing moves a dead ring into a file. For a live one it returns "".
func salvageRing(file, to string, keep bool) (saved string, events uint64, err error) {
	r, err := ring.OpenConsumer(file)
	if err != nil {
		return "", 0, err
	}
	defer r.Close()
	if alive, err := r.Alive(); err != nil || alive {
		return "", 0, err
	}
	saved = filepath.Join(to, strings.TrimSuffix(filepath.Base(file), ".ring")+".txt")
	out, err := os.OpenFile(saved, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", 0, fmt.Errorf("salvage ring %q: %w", file, err)
	}
	events, err = writeSynced(out, &r.Reader)
	if err != nil {
		os.Remove(saved)
		return "", 0, fmt.Errorf("salvage ring %q to %q: %w", file, saved, err)
	}
	if keep {
		return saved, events, nil
	}
	return saved, events, r.Remove()
}

func writeSynced(f *os.File, r *ring.Reader) (events uint64, err error) {
	out := bufio.NewWriter(f)
	events, err = writeRing(out, r)
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return events, err
}
