package arch

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/messages.txt instead of comparing it")

// messageAt has the methods of loggers and of metrics that take a text, and the index of the text.
var messageAt = map[string]int{
	"Debug": 0, "Info": 0, "Warn": 0, "Error": 0,
	"DebugContext": 1, "InfoContext": 1, "WarnContext": 1, "ErrorContext": 1,
	"Log": 2, "LogAttrs": 2,
	"WithDescription": 0, "NewDesc": 1,
}

// instruments are the functions that create a metric from a name and a description.
var instruments = []string{"counter", "gauge", "ageGauge", "histogram"}

// TestMessages compares the log messages and the descriptions of metrics with testdata/messages.txt, so that a
// reviewer reads each change. Their rates of constructions and those of the command lines' help are limited, too.
func TestMessages(t *testing.T) {
	t.Parallel()
	var lines []string
	var p prose
	for name, f := range sources(t) {
		if f.ast == nil || strings.HasSuffix(name, "_test.go") || imports(f.ast, "testing") {
			continue
		}
		for _, text := range messages(f.ast) {
			lines = append(lines, path.Dir(name)+": "+text)
			p.add(text)
			if strings.TrimSpace(text) != text || strings.Contains(text, "\n") {
				t.Errorf("%s: message %q has spaces at its ends or several lines", name, text)
			}
		}
	}
	slices.Sort(lines)
	golden(t, "testdata/messages.txt", slices.Compact(lines))
	p.check(t, "messages")

	var help prose
	for _, program := range []string{"assay", "dispatcher", "worker"} {
		raw, err := os.ReadFile("../../cmd/" + program + "/testdata/help.txt")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(raw)) {
			help.add(line)
		}
	}
	help.check(t, "help")
}

// golden compares sorted lines with a file, or writes the file.
func golden(t *testing.T, file string, lines []string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	for _, line := range lines {
		if !slices.Contains(want, line) {
			t.Errorf("%s lacks %q; read the text, and write the file with -run TestMessages -update", file, line)
		}
	}
	for _, line := range want {
		if !slices.Contains(lines, line) {
			t.Errorf("%s has %q, which is gone; write the file with -run TestMessages -update", file, line)
		}
	}
}

func imports(f *ast.File, wanted string) bool {
	return slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == strconv.Quote(wanted) })
}

// messages returns the constant texts that a file logs, and the descriptions of its metrics.
func messages(f *ast.File) (texts []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		at := -1
		switch fun := call.Fun.(type) {
		case *ast.SelectorExpr:
			if i, ok := messageAt[fun.Sel.Name]; ok {
				at = i
			}
		case *ast.Ident:
			if slices.Contains(instruments, fun.Name) {
				at = 1
			}
		}
		if at >= 0 && at < len(call.Args) {
			if text, ok := constant(call.Args[at]); ok {
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts
}

// constant returns the value of a string literal, or of a sum of literals.
func constant(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, err := strconv.Unquote(e.Value)
			return text, err == nil
		}
	case *ast.BinaryExpr:
		left, ok := constant(e.X)
		right, too := constant(e.Y)
		return left + right, ok && too && e.Op == token.ADD
	}
	return "", false
}

func TestMessagesAreFound(t *testing.T) {
	t.Parallel()
	f, err := parser.ParseFile(token.NewFileSet(), "", `package p
func f() {
	slog.Warn("one", "key", "value")
	l.log.ErrorContext(ctx, "two "+"parts")
	slog.Log(ctx, level, "three")
	gauge("assay_x", "four")
	meter.Int64Counter("assay_y", metric.WithDescription("five"))
	slog.Info(variable)
}`, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(messages(f)), "[one two parts three four five]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
