package program

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// text returns content as text without changes. Requests are JSON, which requires UTF-8, so the
// error names the first invalid byte and its line.
func text(name string, content []byte) (string, error) {
	if utf8.Valid(content) {
		return string(content), nil
	}
	for _, mark := range []string{"\xff\xfe", "\xfe\xff"} {
		if bytes.HasPrefix(content, []byte(mark)) {
			return "", fmt.Errorf("%s: is UTF-16; save it as UTF-8", name)
		}
	}
	at := 0
	for at < len(content) {
		r, size := utf8.DecodeRune(content[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	line := 1 + bytes.Count(content[:at], []byte("\n"))
	column := at - bytes.LastIndexByte(content[:at], '\n')
	return "", fmt.Errorf("%s: line %d, byte %d is 0x%02x, which is not UTF-8; save it as UTF-8", name, line, column, content[at])
}

// cookie matches the comment with the encoding of a Python source (PEP 263).
var cookie = regexp.MustCompile(`^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)`)

// isPlainPython reports whether a source is valid UTF-8 that Python reads as such.
func isPlainPython(source []byte) bool {
	if !utf8.Valid(source) {
		return false
	}
	for range 2 {
		line, rest, _ := bytes.Cut(source, []byte("\n"))
		if m := cookie.FindSubmatch(bytes.TrimPrefix(line, []byte("\ufeff"))); m != nil {
			name := strings.ReplaceAll(strings.ToLower(string(m[1])), "_", "-")
			return name == "utf-8" || name == "utf8" || strings.HasPrefix(name, "utf-8-") || name == "ascii" || name == "us-ascii"
		}
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return true // a statement: the second line is irrelevant
		}
		source = rest
	}
	return true
}
