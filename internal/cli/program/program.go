// Package program reads the programs and policies of a command line.
package program

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/assay-run/assay/pkg/job"
)

// Named is a program on a command line. A .py file, or - for standard input, is a Python program
// unless a language is set. Other files run by their #! line. Anything else is a command of the
// image. A Python source that is not UTF-8 is run as a file by the image's python3, which reads its
// coding comment.
type Named struct {
	File  string
	Args  []string // run even a Python program as a command
	Tests string   // file with the tests of the program; "": none
	Stdin string   // file with the standard input of a command or of code; - is this process's

	Language string // language of the file in the catalogue; "": python, or a command
}

// Read sets the program of s and its files. Errors start with the wrong flag.
func (n Named) Read(stdin io.Reader, s *job.Spec) error {
	content, err := n.content(stdin)
	if err != nil {
		return err
	}
	for _, arg := range n.Args {
		if !utf8.ValidString(arg) {
			return fmt.Errorf("argument %q is not UTF-8", arg)
		}
	}
	python := n.File == "-" || strings.HasSuffix(n.File, ".py")
	switch {
	case n.Tests != "":
		s.Program.Tests, err = n.tests(content)
		return err
	case n.Language != "":
		source, err := text(n.File, content)
		if err != nil {
			return err
		}
		s.Program.Code = &job.Code{Language: n.Language, Source: source, Args: n.Args}
		s.Program.Code.Stdin, err = n.input(stdin)
		return err
	case python && len(n.Args) == 0 && n.Stdin == "" && isPlainPython(content):
		s.Program.Python = &job.Python{Code: string(content)}
		return nil
	case content == nil:
		s.Program.Command = &job.Command{Argv: append([]string{n.File}, n.Args...)}
	default:
		name := "/workspace/" + filepath.Base(n.File)
		if n.File == "-" {
			name = "/workspace/stdin.py"
		}
		s.Files = map[string]job.File{name: inlineFile(content)}
		s.Program.Command = &job.Command{Argv: append(append(interpreter(content, python), name), n.Args...)}
	}
	s.Program.Command.Stdin, err = n.input(stdin)
	return err
}

// tests reads the tests of a solution.
func (n Named) tests(solution []byte) (*job.Tests, error) {
	raw, err := os.ReadFile(n.Tests)
	if err != nil {
		return nil, fmt.Errorf("--tests: %w", err)
	}
	if _, err := text("--tests "+n.Tests, raw); err != nil {
		return nil, err
	}
	t := &job.Tests{}
	if err := job.Decode(raw, "tests", t); err != nil {
		return nil, fmt.Errorf("--tests %s: %w", n.Tests, err)
	}
	if t.Code, err = text(n.File, solution); err != nil {
		return nil, err
	}
	if n.Language != "" {
		t.Language = n.Language
	}
	return t, nil
}

// content reads the program; nil means a command of the image.
func (n Named) content(stdin io.Reader) ([]byte, error) {
	if n.File == "-" {
		return io.ReadAll(stdin)
	}
	b, err := os.ReadFile(n.File)
	if err == nil && !bytes.HasPrefix(b, []byte("\x7fELF")) {
		return b, nil
	}
	if err != nil && (strings.HasSuffix(n.File, ".py") || n.Tests != "" || n.Language != "") {
		return nil, err
	}
	if n.Language != "" {
		return nil, fmt.Errorf("--language: %s is no source, but a program of this host", n.File)
	}
	return nil, nil // a binary of this host is unrelated to the image's
}

// input reads the program's standard input.
func (n Named) input(stdin io.Reader) (string, error) {
	switch n.Stdin {
	case "":
		return "", nil
	case "-":
		b, err := io.ReadAll(stdin)
		if err != nil {
			return "", err
		}
		return text("standard input", b)
	}
	b, err := os.ReadFile(n.Stdin)
	if err != nil {
		return "", err
	}
	return text("--stdin "+n.Stdin, b)
}

// interpreter returns the words of a script's #! line.
func interpreter(script []byte, python bool) []string {
	line, _, _ := bytes.Cut(script, []byte("\n"))
	if words, ok := bytes.CutPrefix(line, []byte("#!")); ok && len(bytes.Fields(words)) > 0 {
		return strings.Fields(string(words))
	}
	if python {
		return []string{"python3"}
	}
	return []string{"/bin/sh"}
}

func inlineFile(content []byte) job.File {
	text := string(content)
	if utf8.Valid(content) {
		return job.File{Text: &text}
	}
	text = base64.StdEncoding.EncodeToString(content)
	return job.File{Base64: &text}
}
