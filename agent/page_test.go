package agent

import (
	"html"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// setStrings sets every string in a value, at any depth. The function text makes each string from
// the name of the field that it is in.
func setStrings(v reflect.Value, name string, text func(name string) string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text(name))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			setStrings(v.Index(i), name, text)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				setStrings(v.Field(i), name+"."+f.Name, text)
			}
		}
	}
}

var tag = regexp.MustCompile(`<[^>]*>`)

// Programs name their channels, and errors quote what programs wrote. The page escapes the names
// and the errors.
func TestPageEscapesHostileText(t *testing.T) {
	const attack = `<script>alert(1)</script>&amp;" onload='x`
	pages := map[string]string{}
	for _, suffix := range []string{"", attack} {
		var s Status
		setStrings(reflect.ValueOf(&s).Elem(), "", func(name string) string {
			return name + suffix
		})
		s.Started = time.Now()
		pages[suffix] = string(statusPage(&s))
	}
	tame, hostile := tag.FindAllString(pages[""], -1), tag.FindAllString(pages[attack], -1)
	if !slices.Equal(tame, hostile) {
		t.Errorf("hostile text changes the tags:\n%q\nwant\n%q", hostile, tame)
	}
	shown := html.UnescapeString(pages[attack])
	for _, name := range []string{
		".Node", ".Run", ".Logs", ".Rings", ".Table.Source", ".Link.Server", ".Chrony.Error",
		".Channels.Channel", ".Channels.Handler", ".Channels.Policy", ".Channels.Trouble",
		".Warnings",
	} {
		if !strings.Contains(shown, name+attack) {
			t.Errorf("the page does not show %s as it is", name)
		}
	}
	if strings.ContainsAny(tag.ReplaceAllString(pages[attack], ""), `<>"'`) {
		t.Errorf("text is not escaped:\n%s", pages[attack])
	}
	if strings.Contains(pages[attack], "%!") {
		t.Errorf("a verb has no value, or a value no verb:\n%s", pages[attack])
	}
}

// The page shows the words and numbers of a status.
func TestPageShowsStatus(t *testing.T) {
	s := Status{
		Node: "n", ProcessID: 7, Started: time.Now(), Run: "r", Finished: 3,
		Table:  TableStatus{Source: "server", Generation: 5},
		Link:   LinkStatus{Server: "s:1", Connected: true},
		Chrony: ChronyStatus{Bounded: true, Bound_ns: 1500},
		Total: Counts{Events: 11, Dropped: 12, NotStored: 13, OverRate: 14, Missing: 15,
			Unread: 16},
		Channels: []RingStatus{{
			Channel: "a/x", ProcessID: 8, Handler: "id", Policy: "drop", Alive: true, Waiting: 21,
			Counts: Counts{Events: 22, Dropped: 23, LogBytes: 3 << 20},
		}},
		Processes: []ProcessUsage{{ProcessID: 8, Rings: 2, RingBytes: 5 << 30}},
	}
	check := func(want ...string) {
		t.Helper()
		text := strings.Join(strings.Fields(tag.ReplaceAllString(string(statusPage(&s)), " ")), " ")
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("no %q in %s", w, text)
			}
		}
	}
	check("cp-agent on n", "running for 0s, process 7", "run r is open", "server, generation 5",
		"s:1, connected", "within 1.5 µs of UTC, by its claim", "11 12 13 14 15 16 0 0 B",
		"a/x 8 id drop runs 22 21 23 3.0 MiB", "8 2 5.0 GiB")
	s = Status{Link: LinkStatus{Server: "s:1"}, Finished: 3, Total: Counts{LogBytes: 1023}}
	check("none is open", "s:1, away", "claims nothing", "No program has a channel open. 3 rings",
		"1023 B", "process None.")
	s.Chrony.Error, s.Channels = "no answer", []RingStatus{{}}
	check("chrony no answer", "ended")
}
