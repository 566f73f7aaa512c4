package ui

import (
	"encoding/json"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/ui/display"
	"github.com/assay-run/assay/pkg/job"
)

// maxLine is the most bytes of a name, a label or a message in a table.
const maxLine = 160

// pair is a label.
type pair struct{ Key, Value string }

// helpers are the functions of templates. All return text, which templates escape.
var helpers = template.FuncMap{
	"line":     func(s string) string { return display.Line(s, maxLine) },
	"long":     func(s string) string { return display.Line(s, 2000) },
	"text":     func(s string) string { t, _ := display.Text(s, 64<<10); return t },
	"ansi":     func(s string) []display.Span { return display.ANSI(head(s, maxScreen)) },
	"count":    display.Count,
	"bytes":    display.Bytes,
	"millis":   display.Millis,
	"duration": display.Duration,
	"time":     display.Time,
	"iso":      func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"percent":  display.Percent,
	"kind":     display.Kind,
	"words":    func(v any) string { return display.Words(word(v)) },
	"size":     func(n job.Size) string { return display.Bytes(int64(n)) },
	"labels":   sortedLabels,
	"infra":    func(n int64, of int64) string { return display.Percent(n, of) },
	"short":    func(id job.ID) string { return shortID(id) },
	"score":    func(v *float64) string { return strconv.FormatFloat(*v, 'g', 4, 64) },
	"num":      func(n int) int64 { return int64(n) },
	"class":    func(class string) [2]string { pool, needs := classParts(class); return [2]string{pool, needs} },
	"add":      func(a, b int) int { return a + b },
	"artifact": func(id job.ID, path string) string {
		u := url.URL{Path: "/ui/jobs/" + string(id) + "/artifacts/" + strings.TrimPrefix(path, "/")}
		return u.EscapedPath()
	},
	"do": func(action, on, back string, more ...string) string { // more has pairs of further parameters
		q := url.Values{"on": {on}, "back": {back}}
		for i := 0; i+1 < len(more); i += 2 {
			q.Set(more[i], more[i+1])
		}
		return "/ui/do/" + action + "?" + q.Encode()
	},
	"json": func(raw json.RawMessage) string { t, _ := display.Text(string(raw), 4<<10); return t },
}

func word(v any) string {
	switch v := v.(type) {
	case job.Outcome:
		return string(v)
	case job.State:
		return string(v)
	case job.Reason:
		return string(v)
	case job.Level:
		return string(v)
	case string:
		return v
	}
	return ""
}

// head returns the whole characters among the first n bytes of s.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.TrimSuffix(job.Clip(s, n), "…")
}

func sortedLabels(m map[string]string) []pair {
	var out []pair
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, pair{display.Line(key, 60), display.Line(m[key], 60)})
		if len(out) == 12 {
			break
		}
	}
	return out
}

// shortID returns the end of an id, which distinguishes the jobs of a batch.
func shortID(id job.ID) string {
	if len(id) > 8 {
		return "…" + string(id[len(id)-8:])
	}
	return string(id)
}
