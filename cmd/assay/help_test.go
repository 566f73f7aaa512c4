package main

import (
	"bytes"
	"flag"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/internal/version"
)

var update = flag.Bool("update", false, "write testdata/help.txt instead of comparing it")

// TestHelpText compares the help of each command with testdata/help.txt.
func TestHelpText(t *testing.T) {
	t.Setenv("COLUMNS", "1000") // one line for each flag
	parser, err := newParser(&cli{}, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	text := help(t)
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		for _, child := range n.Children {
			own := help(t, strings.Fields(child.FullPath())[1:]...)
			if strings.Contains(own, "--token") {
				t.Errorf("the help of %s repeats the flags of all commands", child.FullPath())
			}
			text += "\n----\n" + strings.ReplaceAll(own, "\n\nFlags of all commands: see assay --help.\n", "\n")
			walk(child)
		}
	}
	walk(parser.Model.Node)
	testenv.Golden(t, "testdata/help.txt", text, *update)
}

// TestHelpFitsTheScreen checks that the overview fits a terminal of 80 columns, and about one screen.
func TestHelpFitsTheScreen(t *testing.T) {
	t.Parallel()
	lines := strings.Split(help(t), "\n")
	if len(lines) > 45 {
		t.Errorf("assay --help has %d lines", len(lines))
	}
	for _, line := range lines {
		if len(line) > 80 {
			t.Errorf("%q has %d characters", line, len(line))
		}
	}
}

// help returns the help of a command.
func help(t *testing.T, command ...string) string {
	t.Helper()
	var out bytes.Buffer
	if code := run(t.Context(), append(command, "--help"), strings.NewReader(""), &out, &out); code != 0 {
		t.Fatalf("assay %v --help: exit %d, %s", command, code, out.String())
	}
	return out.String()
}

// TestHelpIsOneSentence checks that each command and flag has help of one line: a sentence of at most 120 characters.
func TestHelpIsOneSentence(t *testing.T) {
	t.Parallel()
	parser, err := newParser(&cli{}, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	check := func(name, help string) {
		if !helpSentence.MatchString(help) || len([]rune(help)) > 120 {
			t.Errorf("%s: help %q of %d characters is not one sentence of at most 120 that ends with a period", name, help, len([]rune(help)))
		}
	}
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		for _, f := range n.Flags {
			if !f.Hidden && f.Name != "help" {
				check(n.FullPath()+" --"+f.Name, f.Help)
			}
		}
		for _, p := range n.Positional {
			check(n.FullPath()+" <"+p.Name+">", p.Help)
		}
		for _, child := range n.Children {
			check(child.FullPath(), child.Help)
			walk(child)
		}
	}
	walk(parser.Model.Node)
}

// helpSentence matches a line that starts with a capital or a name of lower case, and ends with a period.
var helpSentence = regexp.MustCompile(`^([A-Z]|containerd).*\.$`)

// TestVersionFlag checks that assay takes --version as the other programs do.
func TestVersionFlag(t *testing.T) {
	t.Parallel()
	var flag, command bytes.Buffer
	for out, arg := range map[*bytes.Buffer]string{&flag: "--version", &command: "version"} {
		if code := run(t.Context(), []string{arg}, nil, out, out); code != 0 {
			t.Fatalf("assay %s: %d, %s", arg, code, out)
		}
	}
	if flag.String() != command.String() || !strings.HasPrefix(flag.String(), "assay "+version.String()+" ") {
		t.Errorf("assay --version prints %q, assay version %q", flag.String(), command.String())
	}
}
