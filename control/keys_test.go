package control

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestKeyFilesComeBackWithTheirModes(t *testing.T) {
	dir := t.TempDir()
	for _, role := range []Role{RoleServer, RoleNode, RoleAdmin} {
		k := must(NewKey("name", role))(t)
		secret := filepath.Join(dir, string(role)+".secret")
		public := filepath.Join(dir, string(role)+".public")
		for path, k := range map[string]Key{secret: k, public: k.Halved()} {
			if err := k.Write(path); err != nil {
				t.Fatal(err)
			}
			if got := must(ReadKey(path))(t); got != k {
				t.Errorf("%q holds %+v, want %+v", path, got, k)
			}
			if err := k.Write(path); !errors.Is(err, os.ErrExist) {
				t.Errorf("a key file is overwritten: %v", err)
			}
		}
		if mode := must(os.Stat(secret))(t).Mode().Perm(); mode != 0o600 {
			t.Errorf("secret key has mode %04o", mode)
		}
		if text := string(must(os.ReadFile(public))(t)); strings.Contains(text, k.Secret) {
			t.Error("the public half holds the secret")
		}
		if err := os.Chmod(secret, 0o640); err != nil {
			t.Fatal(err)
		}
		_, err := ReadKey(secret)
		if !errors.Is(err, ErrKeyMode) || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("a secret that others may read: %v", err)
		}
	}
}

func TestWhoMayReadASecret(t *testing.T) {
	for _, test := range []struct {
		mode          os.FileMode
		owner, reader int
		want          bool
	}{
		{0o600, 7, 7, true}, {0o400, 0, 0, true}, {0o640, 7, 7, false}, {0o604, 0, 7, false},
		{0o440, 0, 7, true}, {0o640, 0, 7, true}, // by root for a group, as in Kubernetes
		{0o660, 0, 7, false}, {0o444, 0, 7, false}, {0o640, 0, 0, false}, {0o640, -1, 7, false},
	} {
		if got := isPrivate(test.mode, test.owner, test.reader); got != test.want {
			t.Errorf("mode %04o of %d, read by %d: private %v", test.mode, test.owner, test.reader,
				got)
		}
	}
}

func TestOneBadKeyDoesNotKeepTheOthersOut(t *testing.T) {
	dir := t.TempDir()
	good := must(NewKey("good", RoleNode))(t)
	server := must(NewKey("server", RoleServer))(t)
	for name, text := range map[string][]byte{
		"good.public": good.Halved().Text(), "bad.public": []byte("name: x\n"),
		"server.public": server.Halved().Text(), "other.txt": []byte("nothing"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	keys, err := ReadClientKeys(dir)
	if len(keys) != 1 || keys[0] != good.Halved() {
		t.Errorf("keys are %+v", keys)
	}
	if !errors.Is(err, ErrKeyFile) || !strings.Contains(err.Error(), "bad.public") ||
		!strings.Contains(err.Error(), "server.public") {
		t.Errorf("error is %v", err)
	}
	// If two files contain the same key under different names, the name in the first file is used.
	twice := t.TempDir()
	key := must(NewKey("a", RoleNode))(t).Halved()
	copied := key
	copied.Name = "b"
	err = errors.Join(
		key.Write(filepath.Join(twice, "a.public")), copied.Write(filepath.Join(twice, "b.public")))
	if err != nil {
		t.Fatal(err)
	}
	keys, err = ReadClientKeys(twice)
	if len(keys) != 1 || keys[0] != key || err == nil ||
		!strings.Contains(err.Error(), `the key of "a" under another name`) {
		t.Errorf("a key under two names: %+v, %v", keys, err)
	}
	if _, err := ReadClientKeys(filepath.Join(dir, "nosuch")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

func TestTextsThatAreNoKey(t *testing.T) {
	k := must(NewKey("a", RoleNode))(t)
	text := string(k.Text())
	for name, text := range map[string]string{
		"empty":            "",
		"no public half":   "name: a\nrole: node\n",
		"a line twice":     text + "name: b\n",
		"an unknown word":  text + "more: b\n",
		"an unknown role":  strings.Replace(text, "role: node", "role: king", 1),
		"a bad name":       strings.Replace(text, "name: a", "name: ../a", 1),
		"a short key":      strings.Replace(text, k.Public, k.Public[:35], 1),
		"a key not in Z85": strings.Replace(text, k.Public, strings.Repeat("~", 40), 1),
		"a short secret":   strings.Replace(text, k.Secret, k.Secret[:5], 1),
		"a very long file": text + strings.Repeat("# more\n", 10_000),
	} {
		if got, err := parseKeys([]byte(text)); !errors.Is(err, ErrKeyFile) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		path := filepath.Join(t.TempDir(), "a.secret")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadKey(path); !errors.Is(err, ErrKeyFile) {
			t.Errorf("%s, in a file: %+v, %v", name, got, err)
		}
	}
}

// Strangers can make the server use the list of keys at any time. The server still reads it only
// after a file was added or removed, and otherwise every ten seconds. For two seconds after a
// change, it reads the list every second.
func TestListOfKeysIsReadSeldom(t *testing.T) {
	dir := t.TempDir()
	now := time.Unix(1, 0)
	d := &keyDirectory{path: dir, now: func() time.Time { return now },
		files: map[string]keyFile{}}
	put := func(file string) Key {
		t.Helper()
		k := must(NewKey("a", RoleNode))(t).Halved()
		if err := os.WriteFile(filepath.Join(dir, file), k.Text(), 0o644); err != nil {
			t.Fatal(err)
		}
		return k
	}
	want := func(want ...Key) {
		t.Helper()
		if got, err := d.list(); !slices.Equal(got, want) || err != nil {
			t.Errorf("list is %+v, %v, want %+v", got, err, want)
		}
	}
	want()
	before := put("a.public")
	if err := os.Chtimes(dir, now, now); err != nil { // file times may be too coarse to differ
		t.Fatal(err)
	}
	want(before)
	was := must(os.Stat(filepath.Join(dir, "a.public")))(t)
	after := put("a.public")  // replaces the file
	for same := true; same; { // file times may be too coarse to differ
		after = put("a.public")
		first, _ := stampOf(was, now)
		second, _ := stampOf(must(os.Stat(filepath.Join(dir, "a.public")))(t), now)
		same = first == second
	}
	for range 9 {
		now = now.Add(100 * time.Millisecond)
		want(before) // the directory was not read again
	}
	now = now.Add(100 * time.Millisecond)
	want(after)
	second := put("b.public")
	want(after, second)
	if err := os.Remove(filepath.Join(dir, "a.public")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(dir, now, now); err != nil {
		t.Fatal(err)
	}
	want(second)

	// When the directory has not changed for a while, its files are read every ten seconds. A list
	// that is the same is the same slice.
	now = now.Add(time.Hour)
	want(second)
	list := d.keys
	now = now.Add(keysAge - time.Millisecond)
	if again, _ := d.list(); &again[0] != &list[0] {
		t.Error("the directory was read again")
	}
	now = now.Add(time.Millisecond)
	if again, _ := d.list(); &again[0] == &list[0] {
		t.Error("the directory was not read again")
	}
	third := put("c.public")
	if err := os.Chtimes(dir, now, now); err != nil {
		t.Fatal(err)
	}
	want(second, third)
	fourth := put("c.public")
	now = now.Add(newKeysAge)
	want(second, fourth)
}

func FuzzParseKeys(f *testing.F) {
	k, err := NewKey("a", RoleNode)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(k.Text())
	f.Add(k.Halved().Text())
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := parseKeys(text)
		if err != nil {
			return
		}
		var all []byte
		for _, k := range keys {
			all = append(all, k.Text()...)
		}
		again, err := parseKeys(all)
		if err != nil || !slices.Equal(again, keys) {
			t.Errorf("%+v become %+v, %v", keys, again, err)
		}
	})
}
