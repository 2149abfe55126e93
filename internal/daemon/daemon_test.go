package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/control"
)

type settings struct {
	Name   string        `mapstructure:"name"`
	ATime  time.Duration `mapstructure:"a_time"`
	Number int           `mapstructure:"number"`
	Other  string        `mapstructure:"other"`
	Names  []string      `mapstructure:"names"`
}

// example returns a daemon with the given Serve.
func example(serve func(context.Context, Start[settings]) error) Daemon[settings] {
	return Daemon[settings]{
		Name:  "an-example",
		Short: "Be an example",
		Long:  "Be an example.",
		Flags: func(cmd *cobra.Command) {
			f := cmd.Flags()
			f.String("name", "", "")
			f.Duration("a-time", time.Second, "")
			f.Int("number", 1, "")
			f.String("other", "default", "")
			f.StringSlice("names", nil, "")
		},
		Check: func(s *settings) error {
			if s.Number == 13 {
				return errors.New("number 13: want another")
			}
			if s.Name == "" {
				s.Name = "filled in"
			}
			return nil
		},
		Serve: serve,
	}
}

func write(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFlagsCountMoreThanTheEnvironmentAndThatMoreThanTheFile(t *testing.T) {
	path := write(t, "a_time: 2s\nnumber: 2\nother: file\n")
	t.Setenv("AN_EXAMPLE_A_TIME", "3s")
	t.Setenv("AN_EXAMPLE_NUMBER", "3")
	t.Setenv("AN_EXAMPLE_OTHER", "") // an empty variable is taken as not set
	var first, second settings
	d := example(func(_ context.Context, s Start[settings]) (err error) {
		first = s.Config
		if err := os.WriteFile(path, []byte("other: changed\n"), 0o600); err != nil {
			return err
		}
		second, err = s.Again()
		return err
	})
	var out, errs bytes.Buffer
	if code := d.Run(t.Context(), []string{"--config", path, "--number", "4"}, &out,
		&errs); code != exitEnded {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	want := settings{Name: "filled in", ATime: 3 * time.Second, Number: 4, Other: "file",
		Names: []string{}}
	if !reflect.DeepEqual(first, want) {
		t.Errorf("starts with %+v, want %+v", first, want)
	}
	if want.Other = "changed"; !reflect.DeepEqual(second, want) {
		t.Errorf("reads again %+v, want %+v", second, want)
	}
}

func TestEnds(t *testing.T) {
	for name, test := range map[string]struct {
		file, says string
		args       []string
		code       int
		serves     bool
	}{
		"as it was asked to": {code: exitEnded, serves: true},
		"help": {args: []string{"--help"},
			says: "AN_EXAMPLE_NAME for --name", code: exitEnded},
		"the version": {args: []string{"--version"}, says: "an-example devel",
			code: exitEnded},
		"a check": {args: []string{"--check"}, says: "the configuration " +
			"can be used", code: exitEnded},
		"a check that finds": {args: []string{"--check", "--number", "13"},
			says: "an-example: number 13: want another\nsee \"an-example --help\"\n",
			code: exitUsage},
		"a wrong configuration": {file: "number: 13\n", says: "number 13",
			code: exitUsage},
		"an unknown key": {file: "name: x\nnumbers: 1\n", says: `c.yaml": ` +
			`line 2: there is no key "numbers": did you mean "number"?`, code: exitUsage},
		"two unknown keys": {file: "a_tim: 1s\n# no\nzzzz: 1\n", says: `did you mean "a_time"?` +
			"\nline 3: there is no key \"zzzz\": use one of name, a_time, number, other, names\n",
			code: exitUsage},
		"a key that is there twice": {file: "Name: x\nname: y\n",
			says: `line 2: "name" is already in line 1`, code: exitUsage},
		"a list":  {file: "- name\n", says: `line 1: want keys and values`, code: exitUsage},
		"no YAML": {file: "\tnumber", says: "yaml", code: exitUsage},
		"a configuration that has no end": {args: []string{"--config", "/dev/zero"},
			says: "not a regular file", code: exitUsage},
		"no file": {args: []string{"--config", "/nonexistent.yaml"},
			says: "nonexistent.yaml", code: exitUsage},
		"an unknown flag": {args: []string{"--nonsense"}, says: "unknown flag",
			code: exitUsage},
		"an argument": {args: []string{"nonsense"}, says: "an-example: unexpected " +
			"argument \"nonsense\"\nsee", code: exitUsage},
		"a daemon that does not": {args: []string{"--other", "fail"},
			says: "an-example: it failed\n", code: exitFailed, serves: true},
	} {
		t.Run(name, func(t *testing.T) {
			args := test.args
			if test.file != "" {
				args = append(args, "--config", write(t, test.file))
			}
			served := false
			d := example(func(_ context.Context, s Start[settings]) error {
				served = true
				if s.Config.Other == "fail" {
					return errors.New("it failed")
				}
				return nil
			})
			var out bytes.Buffer
			if code := d.Run(t.Context(), args, &out, &out); code != test.code ||
				served != test.serves || !strings.Contains(out.String(), test.says) {
				t.Errorf("exit code %d, served %v: %s", code, served, out.String())
			}
		})
	}
}

// The schema has every key, with its type, its default and the text of its flag.
func TestSchema(t *testing.T) {
	d := example(nil)
	var out bytes.Buffer
	if code := d.Run(t.Context(), []string{"--schema"}, &out, &out); code != exitEnded {
		t.Fatalf("exit code %d: %s", code, out.String())
	}
	var schema struct {
		Properties map[string]struct {
			Type    any `json:"type"`
			Default any `json:"default"`
		} `json:"properties"`
		Additional bool `json:"additionalProperties"`
	}
	schema.Additional = true
	if err := json.Unmarshal(out.Bytes(), &schema); err != nil {
		t.Fatal(err)
	}
	p := schema.Properties
	if len(p) != 5 || p["names"].Type != "array" ||
		schema.Additional || p["number"].Type != "integer" ||
		p["number"].Default != 1.0 || p["a_time"].Default != "1s" || p["name"].Default != nil ||
		p["other"].Default != "default" {
		t.Errorf("%+v\n%s", schema, out.String())
	}
	out.Reset()
	if code := d.Run(t.Context(), []string{"--man"}, &out, &out); code != exitEnded ||
		!strings.Contains(out.String(), ".TH AN\\-EXAMPLE 8") ||
		!strings.Contains(out.String(), "\\-\\-a\\-time duration") {
		t.Errorf("exit code %d: %s", code, out.String())
	}
}

// writeKey makes a key, and returns the paths of its secret and its public file.
func writeKey(t *testing.T, dir, name string, role control.Role) (secret, public string) {
	t.Helper()
	key, err := control.NewKey(name, role)
	if err != nil {
		t.Fatal(err)
	}
	secret, public = filepath.Join(dir, name+".secret"), filepath.Join(dir, name+".public")
	if err := errors.Join(key.Write(secret), key.Halved().Write(public)); err != nil {
		t.Fatal(err)
	}
	return secret, public
}

func TestLink(t *testing.T) {
	dir := t.TempDir()
	secret, public := writeKey(t, dir, "beta", control.RoleNode)
	_, server := writeKey(t, dir, "server", control.RoleServer)
	l, err := Link("beta", "192.0.2.1:7330", secret, server, "192.0.2.2:7341")
	if err != nil || l.Server.Server != "192.0.2.1:7330" || l.Server.Key.Name != "beta" ||
		l.Server.Publics == nil || l.Advertise.Port() != 7341 {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err := Link("beta", "127.0.0.1:7330", "", "", ""); err != nil || l.Server.Key != nil ||
		l.Advertise.IsValid() {
		t.Errorf("without keys: %+v, %v", l, err)
	}
	for name, test := range map[string]struct{ node, key, serverKey, advertise, says string }{
		"one of two":             {"beta", secret, "", "", "key and server_key"},
		"the other":              {"beta", "", server, "", "key and server_key"},
		"no such key":            {"beta", "/nonexistent", server, "", "cprof keys client"},
		"no such server's key":   {"", secret, "/nonexistent", "", "server_key: "},
		"a node's as a server's": {"", secret, public, "", `key of node "beta": use server.public`},
		"no address":             {"beta", secret, server, "here", "advertise"},
		"another node's key": {"alpha", secret, server, "",
			`key of node "beta", but this is node "alpha"`},
	} {
		if _, err := Link(test.node, "192.0.2.1:7330", test.key, test.serverKey,
			test.advertise); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestListen(t *testing.T) {
	dir := t.TempDir()
	secret, _ := writeKey(t, t.TempDir(), "server", control.RoleServer)
	writeKey(t, dir, "beta", control.RoleNode)
	c, err := Listen("0.0.0.0:1", Setting{"key", secret}, Setting{"client_keys", dir})
	if err != nil || c.Key == nil {
		t.Fatalf("%+v, %v", c, err)
	}
	if clients, err := c.Clients(); err != nil || len(clients) != 1 {
		t.Errorf("%d are let in, %v", len(clients), err)
	}
	for says, test := range map[string][2]string{
		"key and client_keys":      {secret, ""},
		"cprof keys server":        {"/nonexistent", dir},
		"client_keys: stat /nonex": {secret, "/nonexistent"},
	} {
		if _, err := Listen("0.0.0.0:1", Setting{"key", test[0]},
			Setting{"client_keys", test[1]}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", test, err)
		}
	}
}

// Before a process of root becomes another user, it checks whether that user can read the files
// that a configuration names.
func TestReadableBy(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ReadableBy(Setting{"key", path}, me.Username); err != nil {
		t.Error(err)
	}
	if err := ReadableBy(Setting{"key", path}, "nosuchuser"); err == nil {
		t.Error("a user that does not exist can read it")
	}
	if err := ReadableBy(Setting{"key", path + "no"}, me.Uid); err == nil {
		t.Error("what does not exist can be read")
	}
	other := &user.User{Uid: "4000000000", Gid: "4000000001"}
	for mode, want := range map[uint32]bool{0o600: false, 0o640: false, 0o604: true, 0o711: false} {
		file := &syscall.Stat_t{Mode: mode, Uid: 0, Gid: 0}
		if got := permits(file, other, 4); got != want {
			t.Errorf("mode %04o lets another user read: %v", mode, got)
		}
	}
	own := &syscall.Stat_t{Mode: 0o040, Uid: 4000000000, Gid: 4000000001}
	if permits(own, other, 4) {
		t.Error("the owner reads by the right of the group")
	}
	own.Uid = 0
	if !permits(own, other, 4) {
		t.Error("the group cannot read")
	}
}
