package commandtest

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/daemon"
)

// Precedence fails the test if, for some key of a daemon's configuration, a flag does not override
// the environment, or the environment does not override the file.
func Precedence[C any](t *testing.T, d daemon.Daemon[C]) {
	t.Helper()
	var got C
	d.Check = func(*C) error { return nil } // the values mean nothing
	d.Serve = func(_ context.Context, s daemon.Start[C]) error {
		got = s.Config
		return nil
	}
	file := filepath.Join(t.TempDir(), "c.yaml")
	args := []string{"--config", file}
	fields := reflect.TypeFor[C]()
	text, flags := "", []string(nil)
	for source, set := range []func(key, value string){
		func(key, value string) { text += key + ": " + value + "\n" },
		func(key, value string) {
			t.Setenv(strings.ToUpper(strings.ReplaceAll(d.Name, "-", "_")+"_"+key), value)
		},
		func(key, value string) {
			flags = append(flags, "--"+strings.ReplaceAll(key, "_", "-")+"="+value)
		},
	} {
		for i, key := range daemon.Keys[C]() {
			set(key, sample(fields.Field(i).Type, source))
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var errs strings.Builder
		if code := d.Run(t.Context(), append(args, flags...), io.Discard, &errs); code != 0 {
			t.Fatalf("exit code %d: %s", code, errs.String())
		}
		for i, key := range daemon.Keys[C]() {
			want := sample(fields.Field(i).Type, source)
			value := fmt.Sprint(reflect.ValueOf(got).Field(i))
			if strings.Trim(value, "[]") != want {
				t.Errorf("%s: key %s is %s, want %s, the value of the %s", d.Name, key, value, want,
					[]string{"file", "environment", "flag"}[source])
			}
		}
	}
}

// sample returns a value of type t for a source: 0 for the file, 1 for the environment, 2 for the
// flag. The values for 0 and 1 differ, and those for 1 and 2 differ.
func sample(t reflect.Type, source int) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return time.Duration(source + 5).String()
	case t.Kind() == reflect.Bool:
		return fmt.Sprint(source != 1)
	case t.Kind() == reflect.String, t.Kind() == reflect.Slice:
		return []string{"file", "environment", "flag"}[source]
	case t.Kind() == reflect.Float64:
		return fmt.Sprint(float64(source) + 0.25)
	}
	return fmt.Sprint(source + 5)
}
