package display_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/assay-run/assay/internal/dispatcher/ui/display"
	"github.com/assay-run/assay/pkg/job"
)

// Characters that hide or reorder text become visible. Every result is valid UTF-8 within its limit.
func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain\n\ttext":        "plain\n\ttext",
		"a\u202eb\u2066c":      "a⟨U+202E⟩b⟨U+2066⟩c",
		"\x00\x07\x1b[31m\x7f": "␀␇␛[31m␡",
		"\u200f\ufeff\u00ad":   "⟨U+200F⟩⟨U+FEFF⟩⟨U+00AD⟩",
		"é 👩\u200d💻 日本":        "é 👩\u200d💻 日本",
		"bad \xff\xfe":         "bad \ufffd\ufffd",
		"\u2028line\u0085":     "⟨U+2028⟩line⟨U+0085⟩",
	} {
		if got, cut := display.Text(in, 1000); got != want || cut {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := display.Line("one\ntwo\tthree", 7); got != "one⏎two…" {
		t.Errorf("a line: %q", got)
	}
	if got, cut := display.Text("日本語", 4); got != "日" || !cut {
		t.Errorf("cut within a character: %q", got)
	}
	if got, _ := display.Text(strings.Repeat("\xff", 100), 50); !utf8.ValidString(got) {
		t.Errorf("%q", got)
	}
}

// Terminal colours become classes. Other sequences are removed without losing text.
func TestANSI(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]display.Span{
		"a\x1b[31mred\x1b[0mb":                            {{"", "a"}, {"a-f1", "red"}, {"", "b"}},
		"\x1b[1;4;92mx\x1b[22my":                          {{"a-f10 a-bold a-ul", "x"}, {"a-f10 a-ul", "y"}},
		"\x1b[38;5;196mx\x1b[48;2;0;0;255my":              {{"a-f9", "x"}, {"a-f9 a-b12", "y"}},
		"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b":        {{"", "ab"}},
		"\x1b[2J\x1b[Hcleared\x1b[?25l":                   {{"", "cleared"}},
		"1%\r2%\r\nend":                                   {{"", "1%\n2%\nend"}},
		"\x1b[8mhidden":                                   {{"", "hidden"}},
		"\x1b":                                            nil,
		"\x1b[999;;;;mx\x1b[38mz":                         {{"", "xz"}},
		"\x1bPq#0;2\x1b\\after":                           {{"", "after"}},
		"\x1b[31" + strings.Repeat("1", 9000) + "m" + "x": nil,
	} {
		got := display.ANSI(in)
		if want == nil && len(in) > 5000 {
			continue // termination is the only requirement
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// No input produces an unknown class or invalid UTF-8.
func FuzzANSI(f *testing.F) {
	f.Add("\x1b[38;5;1mx\x1b]0;\x07\x1b[48:2::1:2:3m")
	f.Fuzz(func(t *testing.T, in string) {
		for _, s := range display.ANSI(in) {
			if strings.Trim(s.Class, "a-fbinvoldtusr0123456789 ") != "" || !utf8.ValidString(s.Text) || strings.ContainsRune(s.Text, 0x1b) {
				t.Fatalf("%q: %q", in, s)
			}
		}
	})
}

func TestFigures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ got, want string }{
		{display.Count(0), "0"}, {display.Count(1234567), "1\u202f234\u202f567"}, {display.Count(-1234), "-1\u202f234"},
		{display.Bytes(1023), "1023 B"}, {display.Bytes(1 << 30), "1.00 GiB"}, {display.Bytes(1 << 62), "4.00 EiB"},
		{display.Millis(0.5), "0.50 ms"}, {display.Millis(61_000), "1 min 1 s"}, {display.Duration(49 * time.Hour), "2 d 1 h"},
		{display.Percent(0, 10), "0 %"}, {display.Percent(1, 100_000), "< 0.1 %"}, {display.Percent(99_999, 100_000), "> 99.9 %"}, {display.Percent(1, 0), "–"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// The parts of a bar fill it in order, and the smallest is visible.
func TestBars(t *testing.T) {
	t.Parallel()
	b := job.Batch{Total: 1_000_003, Counts: map[job.State]int64{job.Finished: 1_000_001, job.Running: 1, job.Queued: 1}, Outcomes: map[job.Outcome]int64{job.Succeeded: 1_000_000, job.Lost: 1}}
	parts := display.Verdicts(&b)
	at := 0
	for _, p := range parts {
		if p.X != at || p.W < 3 {
			t.Errorf("%+v begins not at %d, or is not seen", p, at)
		}
		at += p.W
	}
	if at != 1000 || len(parts) != 4 {
		t.Errorf("%d parts fill %d of 1000", len(parts), at)
	}
	if infra, ended := display.Infra(&b); infra != 1 || ended != 1_000_001 {
		t.Errorf("infrastructure: %d of %d", infra, ended)
	}
	if got := display.Verdicts(&job.Batch{}); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// An output is the same for any division into parts.
func TestTerminalOfParts(t *testing.T) {
	t.Parallel()
	const text = "a\x1b[31mred\r\nx\x1b[1;4mbold\x1b]0;title\x07b\x1b]8;;http://x\x1b\\c\x1b(Bd\x1b[0me\x1b[38;5;12mblue\rend\x1bMz"
	whole := func(spans []display.Span) (out string) {
		for _, s := range spans {
			for _, r := range s.Text {
				out += s.Class + ":" + string(r) + "\n"
			}
		}
		return out
	}
	want := whole(display.ANSI(text))
	for cut := range len(text) {
		for second := cut; second < len(text); second++ {
			var term display.Terminal
			var got string
			for _, part := range []string{text[:cut], text[cut:second], text[second:]} {
				got += whole(term.Write(part))
			}
			if got != want {
				t.Fatalf("cut at %d and %d:\n%q\nwant\n%q", cut, second, got, want)
			}
		}
	}
}

// Differences between two objects are listed by line.
func TestChanges(t *testing.T) {
	t.Parallel()
	got := display.Changes(json.RawMessage(`{"a":1,"b":"x\u202e","gone":[1]}`), json.RawMessage(`{"a":1,"b":"<y>","new":{"k":2}}`))
	want := []display.Change{{Had: true, Has: true, Before: "b: x⟨U+202E⟩", After: "b: <y>"}, {Had: true, Before: "gone: [1]"}, {Has: true, After: `new: {"k":2}`}}
	for i := range got {
		if !got[i].Had {
			got[i].Before = ""
		}
		if !got[i].Has {
			got[i].After = ""
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if got := display.Changes(nil, json.RawMessage(`"text"`)); len(got) != 0 {
		t.Errorf("of what is no object: %+v", got)
	}
}

// Times appear in one unit, before and after now.
func TestAgo(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0: "now", 900 * time.Millisecond: "now", 12 * time.Second: "12 s ago", 3*time.Minute + 59*time.Second: "3 min ago", 25 * time.Hour: "1 d ago",
		2 * time.Hour: "2 h ago", -5 * time.Minute: "in 5 min", -40 * 24 * time.Hour: "in 40 d",
	} {
		if got := display.Ago(now.Add(-d), now); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	if got := display.Ago(time.Time{}, now); got != "–" {
		t.Error(got)
	}
}
