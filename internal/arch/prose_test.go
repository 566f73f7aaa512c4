package arch

import (
	"go/ast"
	"maps"
	"math"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// constructions are the sentence patterns that make prose hard to read. TestProse counts each per 10,000 words.
var constructions = [...]struct {
	name    string
	pattern *regexp.Regexp
}{
	{"what", regexp.MustCompile(`(?i)\bwhat (is|are|was|were|has|have|had|a|an|the|it|they|its|no|this|each)\b`)},
	{"says", regexp.MustCompile(`(?i)\b(tells?|told|says?|said|hears?|heard)\b`)},
	{"one that", regexp.MustCompile(`(?i)\b(one that|ones that|those (that|which|of)|of which|that of)\b`)},
	{"nobody", regexp.MustCompile(`(?i)\b(nobody|whoever|somebody|whatever)\b`)},
	{"who", regexp.MustCompile(`(?i)(^|[.:;] |\b(for|to|of|from|by|than) )who\b`)},
}

// proseTarget is the limit of each rate per 10,000 words in trees without a row in proseLimits.
const proseTarget = 10

// proseLimits has, for each tree, the highest rates per 10,000 words in the order of constructions, and the highest
// number of comments that start with Who or What. A limit may only go down.
var proseLimits = map[string][len(constructions) + 1]int{
	"Go cmd":          {6, 5, 5, 5, 5, 0},      // 3,662 words
	"Go elsewhere":    {20, 10, 14, 10, 10, 0}, // 3,172 words
	"Go internal":     {5, 5, 5, 5, 5, 0},      // 64,914 words
	"Go pkg":          {5, 5, 5, 5, 5, 0},      // 85,629 words
	"Go test":         {5, 5, 6, 5, 5, 0},      // 5,681 words
	"Python guest":    {5, 5, 5, 5, 5, 0},      // 9,639 words
	"Python sdk":      {5, 5, 5, 5, 5, 0},      // 19,352 words
	"pages docs":      {5, 5, 5, 5, 5, 0},      // 54,324 words
	"pages docs/adr":  {5, 5, 5, 5, 5, 0},      // 17,282 words
	"pages elsewhere": {5, 5, 5, 5, 5, 0},      // 6,156 words
}

// prose is the text of one tree or package.
type prose struct {
	words, heads int
	counts       [len(constructions)]int
}

var opening = regexp.MustCompile(`^(Who|What)\b`)

// add counts one comment, docstring or page.
func (p *prose) add(text string) {
	text = strings.Join(strings.Fields(text), " ")
	p.words += len(strings.Fields(text))
	for i, c := range constructions {
		p.counts[i] += len(c.pattern.FindAllString(text, -1))
	}
	if opening.MatchString(text) {
		p.heads++
	}
}

func (p prose) plus(q prose) prose {
	p.words, p.heads = p.words+q.words, p.heads+q.heads
	for i := range p.counts {
		p.counts[i] += q.counts[i]
	}
	return p
}

func (p prose) rate(i int) float64 { return float64(p.counts[i]) * 1e4 / float64(max(p.words, 1)) }

// TestProse compares the rates of each tree with proseLimits. With -v it prints the rates of each package.
func TestProse(t *testing.T) {
	t.Parallel()
	trees, packages := map[string]prose{}, map[string]prose{}
	count := func(tree, pkg string, texts []string) {
		var p prose
		for _, text := range texts {
			p.add(text)
		}
		trees[tree], packages[pkg] = trees[tree].plus(p), packages[pkg].plus(p)
	}
	for name, f := range sources(t) {
		top, _, _ := strings.Cut(name, "/")
		switch {
		case strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_test.py") || generated.MatchString(f.text[:min(len(f.text), 500)]):
		case f.ast != nil:
			tree := "Go elsewhere"
			if slices.Contains([]string{"cmd", "internal", "pkg", "test"}, top) {
				tree = "Go " + top
			}
			count(tree, "Go "+path.Dir(name), goComments(f.ast))
		case top == "guest" || top == "sdk":
			count("Python "+top, "Python "+path.Dir(name), pythonComments(f.text))
		}
	}
	for name, text := range pages(t) {
		tree := "pages elsewhere"
		if dir := path.Dir(name); dir == "docs/adr" {
			tree = "pages docs/adr"
		} else if under(dir, "docs") {
			tree = "pages docs"
		}
		count(tree, "page "+name, []string{text})
	}
	for _, all := range []map[string]prose{packages, trees} {
		if !testing.Verbose() {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			p := all[name]
			t.Logf("%-34s %6d words: what %5.1f, says %5.1f, one that %5.1f, nobody %5.1f, who %5.1f; %d start with Who or What",
				name, p.words, p.rate(0), p.rate(1), p.rate(2), p.rate(3), p.rate(4), p.heads)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(trees)) {
		trees[name].check(t, name)
	}
	for name := range proseLimits {
		if trees[name].words == 0 {
			t.Errorf("%s has limits and no text: delete its row in internal/arch/prose_test.go", name)
		}
	}
}

// check reports rates above the limits of the tree. A tree without a row has the target as its limit.
func (p prose) check(t *testing.T, tree string) {
	t.Helper()
	limit, ok := proseLimits[tree]
	for i, c := range constructions {
		most := limit[i]
		if !ok {
			most = proseTarget
		}
		if math.Ceil(p.rate(i)) > float64(most) {
			t.Errorf("%s: %.1f of %q per 10,000 words, limit %d: write plain English (CONTRIBUTING.md); %s finds the places",
				tree, p.rate(i), c.name, most, c.pattern)
		}
	}
	if p.heads > limit[len(p.counts)] {
		t.Errorf("%s: %d comments or pages start with Who or What, limit %d: start with a noun", tree, p.heads, limit[len(p.counts)])
	}
}

var generated = regexp.MustCompile(`(Code g|\bG)enerated by .*(?i:do not edit)`)

// goComments returns the text of each comment group. Directives are left out.
func goComments(f *ast.File) (texts []string) {
	for _, c := range f.Comments {
		texts = append(texts, c.Text())
	}
	return texts
}

var (
	pythonString    = regexp.MustCompile(`^[rRbBuUfF]{0,2}("""|'''|"|')`)
	pythonDirective = regexp.MustCompile(`^(!|noqa|fmt:|type:|mypy:|pragma|pylint:|ruff:)`)
)

// pythonComments returns comments, with adjacent lines joined, and triple-quoted strings that begin a line.
func pythonComments(source string) (texts []string) {
	comment, last := "", -2
	line, begins := 0, true // begins: only spaces so far in this line
	for i := 0; i < len(source); {
		rest := source[i:]
		quote := pythonString.FindStringSubmatch(rest)
		switch {
		case rest[0] == '\n':
			i, line, begins = i+1, line+1, true
		case rest[0] == '#':
			text, _, _ := strings.Cut(rest, "\n")
			i += len(text)
			text = strings.TrimSpace(strings.TrimLeft(text, "#"))
			if pythonDirective.MatchString(text) {
				continue
			}
			if comment != "" && (last != line-1 || !begins) {
				texts, comment = append(texts, comment), ""
			}
			comment, last = comment+" "+text, line
		case quote != nil && (i == 0 || !isIdentifier(source[i-1])):
			text := pythonLiteral(rest[len(quote[0]):], quote[1])
			if begins && len(quote[1]) == 3 {
				texts = append(texts, strings.TrimSuffix(text, quote[1]))
			}
			i += len(quote[0]) + len(text)
			line, begins = line+strings.Count(text, "\n"), false
		default:
			begins = begins && (rest[0] == ' ' || rest[0] == '\t')
			i++
		}
	}
	return append(texts, comment)
}

// pythonLiteral returns the string up to and with its closing quote.
func pythonLiteral(rest, quote string) string {
	for i := 0; i < len(rest); i++ {
		switch {
		case rest[i] == '\\':
			i++
		case strings.HasPrefix(rest[i:], quote):
			return rest[:i+len(quote)]
		}
	}
	return rest
}

func isIdentifier(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// pages returns the Markdown files without their code blocks. Records under docs/history stay as they were.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := walk(func(name, file string) error {
		if path.Ext(name) != ".md" || under(name, "docs/history") {
			return nil
		}
		raw, err := os.ReadFile(file)
		found[name] = fenced.ReplaceAllString(string(raw), "")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestProseCounts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]prose{
		"The worker sends the artifacts.":                           {words: 5},
		"What is kept, and what the host\nhas.":                     {words: 8, heads: 1, counts: [...]int{2, 0, 0, 0, 0}},
		"Who is held to a label is told: for who has it.":           {words: 12, heads: 1, counts: [...]int{0, 1, 0, 0, 2}},
		"one that runs, those of which it says nothing, that of it": {words: 12, counts: [...]int{0, 1, 3, 0, 0}},
		"Whatever nobody tells somebody, whoever heard.":            {words: 6, counts: [...]int{0, 2, 0, 4, 0}},
		"The users who sign in do whatsoever.":                      {words: 7},
	} {
		var got prose
		if got.add(text); got != want {
			t.Errorf("%q: got %+v, want %+v", text, got, want)
		}
	}
}

func TestPythonComments(t *testing.T) {
	t.Parallel()
	got := pythonComments("#!/bin/sh\n# one\n# two\nx = '# no' + \"\"\"no\"\"\"  # three\n\ndef f():\n    r\"\"\"four \\\"\"\" five\"\"\"\n    # noqa: E1\n    # six\n")
	if want := []string{" one two", "four \\\"\"\" five", " three", " six"}; !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("got %q, want %q", got, want)
	}
}
