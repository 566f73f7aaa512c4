package main

import (
	"bytes"
	"flag"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/internal/version"
)

var update = flag.Bool("update", false, "write testdata/help.txt instead of comparing it")

// TestHelpText compares the help of each command with testdata/help.txt. Global flags are listed once, at the top.
func TestHelpText(t *testing.T) {
	t.Setenv("COLUMNS", "1000") // one line for each flag
	parser, err := newParser(&cli{}, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	help := func(n *kong.Node) string {
		var out bytes.Buffer
		args := strings.Fields(n.FullPath())[1:]
		if code := run(t.Context(), append(args, "--help"), strings.NewReader(""), &out, &out); code != 0 {
			t.Fatalf("assay %v --help: exit %d, %s", args, code, out.String())
		}
		return out.String()
	}
	root := help(parser.Model.Node)
	_, flags, _ := strings.Cut(root, "\nFlags:\n")
	flags, _, _ = strings.Cut(flags, "\n\n")
	global := map[string]bool{}
	for line := range strings.Lines(flags) {
		global[strings.Join(strings.Fields(line), " ")] = true
	}
	text := root
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		for _, child := range n.Children {
			lines := slices.DeleteFunc(strings.Split(help(child), "\n"), func(line string) bool {
				return global[strings.Join(strings.Fields(line), " ")] || line == `Run "assay `+strings.TrimPrefix(child.FullPath(), "assay ")+` <command> --help" for more information on a command.`
			})
			own := strings.NewReplacer("Flags:\n\nCommands:", "Commands:", "Flags:\n\n", "Flags:\n").Replace(strings.Join(lines, "\n"))
			text += "\n----\n" + strings.TrimSuffix(strings.TrimRight(own, "\n"), "\n\nFlags:") + "\n"
			walk(child)
		}
	}
	walk(parser.Model.Node)
	testenv.Golden(t, "testdata/help.txt", text, *update)
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
