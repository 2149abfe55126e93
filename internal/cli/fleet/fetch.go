package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

func newRunFetch() *cobra.Command {
	var server serverFlags
	cmd := &cobra.Command{
		Use:   "fetch NAME...",
		Short: "Copy runs from the server to this machine, to analyze them here",
		Long: `Copy complete runs from the server into this machine's directory of runs:
$CLOUDPROFILER_RUNS, else the directory runs. Other commands then find them by name.

If fetching is cut short, the copy is called NAME.part, so no command takes it for a run. Type the
same command again to fetch the rest.

The page and exports of a run are not fetched: make them here.`,
		Example: `  cprof run fetch tuesday
  cprof analyze tuesday`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				if err := runs.CheckName(name); err != nil {
					return command.UsageError{Err: err}
				}
			}
			link, err := server.dial(cmd)
			if err != nil {
				return err
			}
			defer link.Close()
			for _, name := range args {
				line := command.NewProgress(cmd.ErrOrStderr())
				f := runFetcher{link: link, name: name, show: line.Share(), limit: chunkLimit}
				path, err := f.fetchInto(cmd.Context(), command.RunsDir())
				line.Done()
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s in %d files\n", path,
					megabytes(f.fetched), f.files)
			}
			return nil
		},
	}
	server.add(cmd)
	cmd.ValidArgsFunction = server.completeRuns(anyNumber, func(e coordinator.RunEntry) bool {
		return e.Complete && !slices.Contains(command.LocalRuns(), e.Name)
	})
	return cmd
}

const (
	// A file is fetched in parts. chunkLimit is how long the transfer of one part may take. After
	// fetchTries requests for the same part, the fetch gives up.
	chunkLimit = 30 * time.Second
	fetchTries = 3

	// maxFetchedFiles is the largest number of files in a run. Without it, a malicious server could
	// fill this machine's file system with empty files.
	maxFetchedFiles = 1 << 20
)

// runFetcher copies one run.
type runFetcher struct {
	link  asker
	name  string
	show  func(done float64, what string)
	limit time.Duration

	fetched, totalBytes int64 // numbers of bytes
	files               int
}

// asker has the methods of a link that a fetch uses.
type asker interface {
	Ask(ctx context.Context, what string, argument, result any) error
	Call(context.Context, control.Message) (control.Message, error)
}

// fetchInto fetches a run into a directory of runs, and returns the run's path there.
func (f *runFetcher) fetchInto(ctx context.Context, parent string) (path string, err error) {
	list, err := f.list(ctx)
	if err != nil {
		return "", err
	}
	var files []runs.File
	for _, one := range list.Files {
		files = append(files, runs.File{Path: one.Path, Bytes: one.Bytes})
	}
	arrival, err := runs.Receive(parent, f.name, files, list.State)
	if err != nil {
		return "", err
	}
	defer arrival.Close()
	lacks := arrival.Lacks()
	for _, one := range lacks {
		if f.totalBytes += one.Bytes; f.totalBytes < 0 || one.Bytes > 1<<60 {
			return "", fmt.Errorf("fetch run %q: the server lists a file of %d bytes", f.name,
				one.Bytes)
		}
	}
	if err := f.checkRoom(parent); err != nil {
		return "", err
	}
	for _, one := range lacks {
		read := func(offset int64) ([]byte, error) { return f.askChunk(ctx, one, offset) }
		if err := arrival.Put(one, read); err != nil {
			return "", fmt.Errorf("fetch run %q: %w: type the command again to fetch the rest",
				f.name, err)
		}
		f.files++
	}
	again, err := f.list(ctx)
	if err != nil {
		return "", err
	}
	if again.State != list.State {
		return "", fmt.Errorf("fetch run %q: it changed on the server meanwhile: fetch it again",
			f.name)
	}
	return arrival.Complete()
}

func (f *runFetcher) list(ctx context.Context) (list coordinator.RunFiles, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.limit)
	defer cancel()
	err = f.link.Ask(ctx, coordinator.AskRunFiles, coordinator.RunRequest{Name: f.name}, &list)
	switch {
	case err != nil:
	case list.Run != f.name:
		err = fmt.Errorf("the server lists run %q", list.Run)
	case len(list.Files) > maxFetchedFiles || len(list.State) > 1<<10 || list.State == "":
		err = fmt.Errorf("the server lists %d files, at most %d are fetched", len(list.Files),
			maxFetchedFiles)
	}
	if err != nil {
		return list, fmt.Errorf("fetch run %q: %w", f.name, err)
	}
	return list, nil
}

// checkRoom returns an error if the disk has no room for the files that are still to be fetched.
func (f *runFetcher) checkRoom(parent string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(parent, &fs); err != nil {
		return fmt.Errorf("fetch run %q: find the free space in %q: %w", f.name, parent, err)
	}
	if room := int64(fs.Bavail) * int64(fs.Bsize); f.totalBytes > room {
		return fmt.Errorf("fetch run %q: it needs %s, and %q has room for %s: make room, or set "+
			"CLOUDPROFILER_RUNS to another directory", f.name, megabytes(f.totalBytes), parent,
			megabytes(room))
	}
	return nil
}

// askChunk asks the server for a part of a file. It need not check the bytes: the encrypted link
// does.
func (f *runFetcher) askChunk(ctx context.Context, of runs.File, offset int64) ([]byte, error) {
	question := &control.ReadFile{Run: f.name, Path: of.Path, Offset: offset,
		Bytes: min(control.MaxChunkBytes, of.Bytes-offset)}
	var err error
	for range fetchTries {
		var chunk *control.Chunk
		if chunk, err = f.ask(ctx, question); err == nil {
			if chunk.Path != of.Path || chunk.Offset != offset || chunk.Size != of.Bytes {
				return nil, fmt.Errorf("the server sends %q from %d on, of %d bytes: "+
					"it changed there",
					chunk.Path, chunk.Offset, chunk.Size)
			}
			f.fetched += int64(len(chunk.Data))
			f.show(float64(f.fetched)/float64(max(f.totalBytes, 1)), fmt.Sprintf("%s of %s",
				megabytes(f.fetched), megabytes(f.totalBytes)))
			return chunk.Data, nil
		}
		var refused *control.RefusedError
		if errors.As(err, &refused) && refused.Code != control.NotNow || ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

func (f *runFetcher) ask(ctx context.Context, question *control.ReadFile) (*control.Chunk, error) {
	ctx, cancel := context.WithTimeout(ctx, f.limit)
	defer cancel()
	m, err := f.link.Call(ctx, question)
	if err != nil {
		return nil, addAdvice(err)
	}
	chunk, ok := m.(*control.Chunk)
	if !ok {
		return nil, fmt.Errorf("the server answers with %s", m.Kind())
	}
	return chunk, nil
}

// megabytes prints a number of bytes.
func megabytes(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }
