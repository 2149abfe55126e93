package journal

import (
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

var format = Format{"CPTESTJR", 3}

func rootOf(t *testing.T) (*os.Root, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root, filepath.Join(dir, "j")
}

// open returns an open journal and the blocks in it.
func open(t *testing.T, root *os.Root) (j *Journal, blocks []string, at []int64) {
	t.Helper()
	j, err := Open(root, "j", format, func(offset int64, content []byte) error {
		blocks, at = append(blocks, string(content)), append(at, offset)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j, blocks, at
}

func TestBytes(t *testing.T) {
	root, path := rootOf(t)
	j, err := Create(root, "j", format)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	j.Append([]byte{1}, []byte("ab"))
	j.Append()
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	const want = "4350544553544a5203000000" + // magic and version
		"03000000" + "016162" + "afd3b9b5" +
		"00000000" + "c74b6748"
	if got := hex.EncodeToString(text); err != nil || got != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

// Whatever byte a killed process wrote last, all whole blocks survive, the rest is cut off, and the
// journal can be continued.
func TestTornEnds(t *testing.T) {
	r := rand.New(rand.NewPCG(seed.Of(t), 0))
	root, path := rootOf(t)
	j, err := Create(root, "j", format)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	ends := []int64{j.Size()}
	for range 6 {
		block := make([]byte, r.IntN(40))
		for i := range block {
			block[i] = byte(r.Uint32())
		}
		want = append(want, string(block))
		j.Append(block)
		ends = append(ends, j.Size())
	}
	if err := errors.Join(j.Flush(), j.Close()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := ends[0]; size <= int64(len(whole)); size++ {
		if err := os.WriteFile(path, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		n := 0
		for n+1 < len(ends) && ends[n+1] <= size {
			n++
		}
		j, got, at := open(t, root)
		if !slices.Equal(got, want[:n]) {
			t.Fatalf("%d of %d bytes: %q, want %q", size, len(whole), got, want[:n])
		}
		if info, err := os.Stat(path); err != nil || info.Size() != ends[n] {
			t.Fatalf("%d bytes: the file has %v, %v", size, info, err)
		}
		if j.Cut() != size-ends[n] || j.Size() != ends[n] {
			t.Fatalf("%d bytes: %d are cut off and %d stay, want %d", size, j.Cut(), j.Size(),
				ends[n])
		}
		for i, offset := range at {
			if content, err := j.Block(offset); err != nil || string(content) != want[i] {
				t.Fatalf("block at %d: %q, %v", offset, content, err)
			}
		}
		j.Append([]byte("continued"))
		if err := j.Flush(); err != nil {
			t.Fatal(err)
		}
		if _, got, _ := open(t, root); len(got) != n+1 || got[n] != "continued" {
			t.Fatalf("%d bytes, continued: %q", size, got)
		}
	}
}

// A damaged byte anywhere ends the journal before the damaged block.
func TestDamage(t *testing.T) {
	root, path := rootOf(t)
	j, err := Create(root, "j", format)
	if err != nil {
		t.Fatal(err)
	}
	j.Append([]byte("first"))
	second := j.Append([]byte("second"))
	if err := errors.Join(j.Flush(), j.Close()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := second; i < int64(len(whole)); i++ {
		damaged := append([]byte{}, whole...)
		damaged[i] ^= 0x41
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if j, got, _ := open(t, root); len(got) != 1 || j.Size() != second {
			t.Fatalf("byte %d: %q, %d bytes", i, got, j.Size())
		}
	}
}

func TestRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want error
	}{
		"empty":           {"", ErrNotJournal},
		"another file":    {"CPRELATE\x03\x00\x00\x00", ErrNotJournal},
		"another version": {"CPTESTJR\x04\x00\x00\x00", ErrVersion},
	} {
		t.Run(name, func(t *testing.T) {
			root, path := rootOf(t)
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Open(root, "j", format, nil)
			if !errors.Is(err, test.want) {
				t.Errorf("%v, want %v", err, test.want)
			}
			if text, err := os.ReadFile(path); err != nil || string(text) != test.text {
				t.Errorf("the file is changed: %q, %v", text, err)
			}
		})
	}
}

// FuzzOpen opens any bytes. What it reads can be written again.
func FuzzOpen(f *testing.F) {
	f.Add([]byte("CPTESTJR\x03\x00\x00\x00\x03\x00\x00\x00\x01ab\xaf\xd3\xb9\xb5"))
	f.Add([]byte("CPTESTJR\x03\x00\x00\x00\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, text []byte) {
		root, path := rootOf(t)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := Create(root, "again", format)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		read, err := Open(root, "j", format, func(_ int64, content []byte) error {
			j.Append(content)
			return nil
		})
		if err != nil {
			return
		}
		defer read.Close()
		if read.Size()+read.Cut() != int64(len(text)) || j.Size() != read.Size() {
			t.Errorf("%d bytes: %d stay, %d are cut off, %d again", len(text), read.Size(),
				read.Cut(), j.Size())
		}
	})
}
