package coordinator

import (
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// Each key belongs to one node. A node must register under the name of its key, even if no other
// node is there.
func TestAKeyIsOneNode(t *testing.T) {
	f := newFleet(t, testConfig())
	keyOf := func(name, public string) control.Key {
		return control.Key{Name: name, Role: control.RoleNode, Public: public}
	}
	come := func(name string, key control.Key) *fakeClient {
		c := f.join(name)
		c.key = key
		f.run(100*time.Millisecond, nil)
		return c
	}
	wantRefused := func(c *fakeClient, code control.Code, text string) {
		t.Helper()
		if len(c.refused) != 1 || c.refused[0].Code != code ||
			!strings.Contains(c.refused[0].Text, text) || !f.forgotten[c.peer] {
			t.Errorf("%s with the key of %s is refused with %+v, want %s: %s",
				c.register.Name, c.key.Name, c.refused, code, text)
		}
		c.state = clientKilled
	}
	a, b := come("a", keyOf("a", "key 1")), come("b", keyOf("b", "key 2"))
	if !f.core.nodes["a"].isAlive() || !f.core.nodes["b"].isAlive() {
		t.Fatal("nodes with keys of their own are not let in")
	}
	wantRefused(come("a", keyOf("a", "key 3")), control.NameTaken, "another key of that name")
	stolen := come("a", keyOf("a", "key 3"))
	stolen.refused, stolen.register.Instance = nil, a.register.Instance // a thief may know it
	stolen.connect()
	f.run(100*time.Millisecond, nil)
	wantRefused(stolen, control.NameTaken, "another key of that name")
	f.clients["a"] = a
	a.state = clientKilled
	f.run(10*time.Second, nil)
	for _, restarted := range []bool{false, true} {
		if restarted {
			f.core.flush()
			f.restart()
			b.connect()
			f.run(time.Second, nil)
		}
		was := f.core.nodes["a"]
		notAllowed := func(name string, key control.Key, text string) {
			t.Helper()
			wantRefused(come(name, key), control.NotAllowed, text)
		}
		notAllowed("a", keyOf("b", "key 2"), `key of "b" registers as node "a"`)
		notAllowed("c", keyOf("b", "key 2"), `key of "b" registers as node "c"`)
		notAllowed("c", keyOf("c", "key 2"), `with the key of node "b"`) // the file was renamed
		notAllowed("c", keyOf("c", "key 1"), `with the key of node "a"`)
		if f.core.nodes["a"] != was || f.core.nodes["c"] != nil || !f.core.nodes["b"].isAlive() {
			t.Errorf("nodes are %+v", f.core.nodes)
		}
	}
	come("a", keyOf("a", "key 4")) // the administrator gave the node a new key
	if n := f.core.nodes["a"]; !n.isAlive() || n.key != "key 4" {
		t.Errorf("node is %+v", n)
	}
}
