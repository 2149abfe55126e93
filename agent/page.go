package agent

import (
	"bytes"
	"fmt"
	"html"
	"time"
)

// markup is HTML from constants in this file. Go converts a constant to markup implicitly. Never
// convert a variable, because a variable can contain anything.
type markup string

// page is an HTML page that is being written. It does not use html/template. With that package, the
// linker would have to keep every exported method of the program, and these methods would make up a
// fifth of the agent's binary.
type page struct{ b bytes.Buffer }

// write writes markup. It replaces each %s in the markup with an escaped value. A %s must not be
// inside a tag, a script or a style.
func (p *page) write(m markup, values ...any) {
	escaped := make([]any, len(values))
	for i, v := range values {
		escaped[i] = html.EscapeString(fmt.Sprint(v))
	}
	fmt.Fprintf(&p.b, string(m), escaped...)
}

const pageHead = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>cp-agent on %s</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 75em }
body { padding: 0 1em; color: #222; background: #fff }
table { border-collapse: collapse; margin: 1em 0 }
th, td { padding: .15em .8em; text-align: left; vertical-align: top }
th, td { border-bottom: 1px solid #ddd }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
.bad { color: #a00 } .wide { overflow-x: auto }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #181818 } th, td { border-color: #444 }
  .bad { color: #f77 } a { color: #8bf }
}
</style>
<h1>cp-agent on %s</h1>
`

// statusPage returns /status as HTML for people. The page loads nothing else.
func statusPage(s *Status) []byte {
	var p page
	p.write(pageHead, s.Node, s.Node)
	for _, w := range s.Warnings {
		p.write("<p class=\"bad\">%s</p>\n", w)
	}
	p.overview(s)
	p.total(&s.Total)
	p.channels(s)
	p.processes(s.Processes)
	p.write(`<p><a href="/status.json">the same as JSON</a>, <a href="/metrics">metrics</a>
</html>
`)
	return p.b.Bytes()
}

func (p *page) overview(s *Status) {
	running := time.Since(s.Started).Round(time.Second)
	p.write("<table>\n<tr><th>running for<td>%s, process %s\n", running, s.ProcessID)
	p.write("<tr><th>run<td>%s\n", showRun(s.Run))
	p.write("<tr><th>logs<td>%s\n<tr><th>rings<td>%s\n", s.Logs, s.Rings)
	p.write("<tr><th>handler table<td>%s\n", showTable(&s.Table))
	p.write("<tr><th>server<td>%s\n", showLink(&s.Link))
	p.write("<tr><th>chrony<td>%s\n</table>\n", showChrony(&s.Chrony))
}

func (p *page) total(c *Counts) {
	p.write(`<h2>Events since the start</h2>
<table>
<tr><th class="n">came<th class="n">dropped by programs<th class="n">not stored` +
		`<th class="n">over their rate<th class="n">missing<th class="n">in rings set aside` +
		`<th class="n">log rows<th class="n">log size
<tr>`)
	for _, n := range []any{
		c.Events, c.Dropped, c.NotStored, c.OverRate, c.Missing, c.Unread, c.Rows,
		showBytes(c.LogBytes),
	} {
		p.write(`<td class="n">%s`, n)
	}
	p.write("\n</table>\n")
}

func (p *page) channels(s *Status) {
	p.write("<h2>Channels</h2>\n")
	if len(s.Channels) == 0 {
		p.write("<p>No program has a channel open. %s rings were drained to their end.\n",
			s.Finished)
		return
	}
	p.write(`<div class="wide"><table>
<tr><th>channel<th class="n">process<th>handler<th>full ring<th>program<th class="n">events` +
		`<th class="n">waiting<th class="n">dropped<th class="n">log size<th>
`)
	for _, c := range s.Channels {
		program := "ended"
		switch {
		case c.SetAside:
			program = "set aside"
		case c.Alive:
			program = "runs"
		}
		p.write(`<tr><td>%s<td class="n">%s<td>%s<td>%s<td>%s`,
			c.Channel, c.ProcessID, c.Handler, c.Policy, program)
		p.write(`<td class="n">%s<td class="n">%s<td class="n">%s<td class="n">%s`,
			c.Events, c.Waiting, c.Dropped, showBytes(c.LogBytes))
		p.write("<td class=\"bad\">%s\n", c.Trouble)
	}
	p.write("</table></div>\n")
}

func (p *page) processes(all []ProcessUsage) {
	p.write("<h2>Shared memory by process</h2>\n")
	if len(all) == 0 {
		p.write("<p>None.\n")
		return
	}
	p.write("<table>\n<tr><th class=\"n\">process<th class=\"n\">rings<th class=\"n\">memory\n")
	for _, u := range all {
		p.write("<tr><td class=\"n\">%s<td class=\"n\">%s<td class=\"n\">%s\n",
			u.ProcessID, u.Rings, showBytes(uint64(max(u.RingBytes, 0))))
	}
	p.write("</table>\n")
}

func showRun(name string) string {
	if name == "" {
		return "none is open"
	}
	return name + " is open"
}

func showTable(t *TableStatus) string {
	if t.Generation == 0 {
		return t.Source
	}
	return fmt.Sprintf("%s, generation %d", t.Source, t.Generation)
}

func showLink(l *LinkStatus) string {
	switch {
	case l.Server == "":
		return "none"
	case l.Connected:
		return l.Server + ", connected"
	default:
		return l.Server + ", away"
	}
}

func showChrony(c *ChronyStatus) string {
	switch {
	case c.Bounded:
		return fmt.Sprintf("within %.1f µs of UTC, by its claim", float64(c.Bound_ns)/1e3)
	case c.Error != "":
		return c.Error
	default:
		return "claims nothing"
	}
}

// showBytes returns a size in a form for people.
func showBytes(bytes uint64) string {
	n := float64(bytes)
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for n >= 1024 && i < len(units)-1 {
		n, i = n/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%.0f B", n)
	}
	return fmt.Sprintf("%.1f %s", n, units[i])
}
