package capture

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
)

// The names of an address come from the hosts file. Lines that are not valid, and names that are
// too long for a record, are left out.
func TestNamesOfAHostsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	text := "127.0.0.1 localhost\n10.0.0.2\tdb.example db # a comment\n# 10.0.0.3 not\n\n" +
		"nonsense web\n10.0.0.2 again\n1::2 six\n10.0.0.4 " + strings.Repeat("x", 201)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	names := readHosts(path)
	got := map[string][]string{}
	for _, a := range []string{"127.0.0.1", "10.0.0.2", "::ffff:10.0.0.2", "10.0.0.3", "10.0.0.4",
		"1::2"} {
		names.logNames(netip.MustParseAddr(a), func(events []blackbox.Event, err error) bool {
			var d blackbox.Decoder
			for _, e := range events {
				if n, ok := d.Add(e).(blackbox.HostName); ok && n.Source == blackbox.Hosts {
					got[a] = append(got[a], n.Address.String()+" "+n.Name)
				}
			}
			return err == nil
		}, 5)
	}
	db := []string{"10.0.0.2 db.example", "10.0.0.2 db", "10.0.0.2 again"}
	want := map[string][]string{"10.0.0.2": db, "::ffff:10.0.0.2": db, "1::2": {"1::2 six"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	names.logNames(netip.Addr{}, nil, 5)
	if none := readHosts(path + "?"); len(none) > 0 {
		t.Error(none)
	}
}
