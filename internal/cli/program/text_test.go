package program

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

// TestBytesOfFiles checks that a job has the exact bytes of its files, or is an error.
func TestBytesOfFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cases := write("t.json", `{"stdio": [{"stdin": "", "stdout": ""}]}`)
	latin := write("latin.py", "print('a')\nprint('\xe9')\n")
	for name, c := range map[string]struct {
		n     Named
		stdin string
		want  string // of the error
	}{
		"code":          {n: Named{File: write("a.cc", "int main() {\n\"\xe9\"; }\n"), Language: "cpp"}, want: "a.cc: line 2, byte 2 is 0xe9, which is not UTF-8"},
		"graded":        {n: Named{File: latin, Tests: cases}, want: "latin.py: line 2, byte 8 is 0xe9, which is not UTF-8"},
		"tests":         {n: Named{File: write("b.py", ""), Tests: write("bad.json", "{\"stdio\": [{\"stdin\": \"\xff\"}]}")}, want: "bad.json: line 1, byte 23 is 0xff, which is not UTF-8"},
		"stdin":         {n: Named{File: "cat", Stdin: write("in", "\xc3\n")}, want: "in: line 1, byte 1 is 0xc3, which is not UTF-8"},
		"piped stdin":   {n: Named{File: "cat", Stdin: "-"}, stdin: "a\n\x80", want: "standard input: line 2, byte 1 is 0x80"},
		"an argument":   {n: Named{File: "cat", Args: []string{"\xff"}}, want: `argument "\xff" is not UTF-8`},
		"UTF-16":        {n: Named{File: write("w.java", "\xff\xfec\x00l\x00"), Language: "java"}, want: "w.java: is UTF-16; save it as UTF-8"},
		"surrogates":    {n: Named{File: write("s.js", "'\xed\xa0\x80'"), Language: "javascript"}, want: "s.js: line 1, byte 2 is 0xed"},
		"ends too soon": {n: Named{File: write("e.js", "'\xe2\x82"), Language: "javascript"}, want: "e.js: line 1, byte 2 is 0xe2"},
	} {
		err := c.n.Read(strings.NewReader(c.stdin), &job.Spec{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if s := read(t, Named{File: write("ok.cc", "// é\ufffd\n"), Language: "cpp"}, ""); s.Program.Code.Source != "// é\ufffd\n" {
		t.Errorf("%+v", s.Program)
	}
}

// TestBytesOfPython checks that a Python source becomes a snippet if its text represents all of its bytes. Otherwise
// python3 reads the file.
func TestBytesOfPython(t *testing.T) {
	t.Parallel()
	for source, snippet := range map[string]bool{
		"print('é')\n":                  true,
		"\ufeffprint(1)\n":              true,
		"print('\xe9')\n":               false,
		"\xff\xfep\x00":                 false,
		"# coding: utf-8\nprint('é')\n": true,
		"#!/usr/bin/python3\n# -*- coding: UTF-8 -*-\n":        true,
		"# -*- coding: latin-1 -*-\nprint('\xe9')\n":           false,
		"# vim: set fileencoding=iso-8859-15 :\nprint('é')\n":  false,
		"#!/usr/bin/python3\n# coding=cp1252\nprint('\x80')\n": false,
		"x = 1\n# coding: latin-1\nprint('é')\n":               true,
		"\n\n# coding: latin-1\n":                              true,
	} {
		s := read(t, Named{File: "-"}, source)
		if got := s.Program.Python != nil; got != snippet {
			t.Errorf("%q: a snippet: %v", source, got)
		}
		if snippet && s.Program.Python.Code != source {
			t.Errorf("%q: sent %q", source, s.Program.Python.Code)
		}
		if snippet {
			continue
		}
		f := s.Files["/workspace/stdin.py"]
		if got := string(f.Inline()); got != source || s.Program.Command.Argv[0] == "" {
			t.Errorf("%q: sent %q as %q", source, got, s.Program.Command.Argv)
		}
	}
}

func read(t *testing.T, n Named, stdin string) job.Spec {
	t.Helper()
	var s job.Spec
	if err := n.Read(strings.NewReader(stdin), &s); err != nil {
		t.Fatal(err)
	}
	return s
}
