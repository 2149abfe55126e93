package agent

import (
	"fmt"
	"html/template"
	"time"
)

// page is /status for people. It loads nothing from anywhere.
var page = template.Must(template.New("status").Funcs(template.FuncMap{
	"bytes": showBytes,
	"since": func(t time.Time) string { return time.Since(t).Round(time.Second).String() },
	"micro": func(ns uint64) string { return fmt.Sprintf("%.1f µs", float64(ns)/1e3) },
}).Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>cp-agent on {{.Node}}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; color: #222; background: #fff }
table { border-collapse: collapse; margin: 1em 0 } th, td { padding: .15em .8em; text-align: left; border-bottom: 1px solid #ddd; vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums } .bad { color: #a00 } .wide { overflow-x: auto }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } th, td { border-color: #444 } .bad { color: #f77 } a { color: #8bf } }
</style>
<h1>cp-agent on {{.Node}}</h1>
{{range .Warnings}}<p class="bad">{{.}}</p>
{{end -}}
<table>
<tr><th>running for<td>{{since .Started}}, process {{.ProcessID}}
<tr><th>run<td>{{with .Run}}{{.}} is open{{else}}none is open{{end}}
<tr><th>logs<td>{{.Logs}}
<tr><th>rings<td>{{.Rings}}
<tr><th>handler table<td>{{.Table.Source}}{{with .Table.Generation}}, generation {{.}}{{end}}
<tr><th>server<td>{{with .Link.Server}}{{.}}{{else}}none{{end}}{{if .Link.Server}}, {{if .Link.Connected}}connected{{else}}away{{end}}{{end}}
<tr><th>chrony<td>{{if .Chrony.Bounded}}within {{micro .Chrony.Bound_ns}} of UTC, by its claim{{else if .Chrony.Error}}{{.Chrony.Error}}{{else}}claims nothing{{end}}
</table>
<h2>Events since the start</h2>
<table>
<tr><th class="n">came<th class="n">dropped by programs<th class="n">not stored<th class="n">over their rate<th class="n">missing<th class="n">in rings set aside<th class="n">log rows<th class="n">log size
{{with .Total}}<tr><td class="n">{{.Events}}<td class="n">{{.Dropped}}<td class="n">{{.NotStored}}<td class="n">{{.OverRate}}<td class="n">{{.Missing}}<td class="n">{{.Unread}}<td class="n">{{.Rows}}<td class="n">{{bytes .LogBytes}}{{end}}
</table>
<h2>Channels</h2>
{{if .Channels}}<div class="wide"><table>
<tr><th>channel<th class="n">process<th>handler<th>full ring<th>program<th class="n">events<th class="n">waiting<th class="n">dropped<th class="n">log size<th>
{{range .Channels}}<tr><td>{{.Channel}}<td class="n">{{.ProcessID}}<td>{{.Handler}}<td>{{.Policy}}<td>{{if .Alive}}runs{{else}}ended{{end}}<td class="n">{{.Events}}<td class="n">{{.Waiting}}<td class="n">{{.Dropped}}<td class="n">{{bytes .LogBytes}}<td class="bad">{{.Trouble}}
{{end}}</table></div>
{{else}}<p>No program has a channel open. {{.Finished}} rings were drained to their end.
{{end}}
<h2>Shared memory by process</h2>
{{if .Processes}}<table>
<tr><th class="n">process<th class="n">rings<th class="n">memory
{{range .Processes}}<tr><td class="n">{{.ProcessID}}<td class="n">{{.Rings}}<td class="n">{{bytes .RingBytes}}
{{end}}</table>
{{else}}<p>None.
{{end}}<p><a href="/status.json">the same as JSON</a>, <a href="/metrics">metrics</a>
</html>
`))

// showBytes is a size for people.
func showBytes(v any) string {
	n := 0.0
	switch v := v.(type) {
	case uint64:
		n = float64(v)
	case int64:
		n = float64(v)
	}
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
