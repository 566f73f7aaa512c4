package job

import (
	"strings"
	"testing"
)

func TestClip(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{
		{"", 0, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "abc…"},
		{"a", 0, "…"},
		{"aé", 2, "a…"}, // é has two bytes
		{"aéb", 3, "aé…"},
		{"a🙂", 4, "a…"}, // 🙂 has four
		{"🙂", 3, "…"},
		{"a\x80\x80\x80\x80\x80\x80", 5, "a\x80…"}, // no character is that long
	} {
		if got := Clip(c.s, c.n); got != c.want {
			t.Errorf("%q to %d: %q, want %q", c.s, c.n, got, c.want)
		}
	}
}

func TestClipMessage(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"":                              "",
		"a\x80b":                        "a\uFFFDb",
		strings.Repeat("a", 1000):       strings.Repeat("a", 1000),
		strings.Repeat("a", 999) + "éb": strings.Repeat("a", 999) + "…",
	} {
		if got := ClipMessage(s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}
