package runtime

import (
	"slices"
	"strings"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// maxImports is how many modules of a program are looked at.
const maxImports = 64

// ImportsOf returns the modules that a python program imports first of all, as Key has
// them: those of statements that run whenever the program does. It is "" for programs
// that an interpreter which has imported ahead does not suit: their environment has
// more in it, or they have other directories.
func ImportsOf(program job.Program, p *policy.Policy) string {
	def := policy.Default()
	if program.Python == nil || len(p.Env.Set)+len(p.Env.Secrets)+len(p.Read) > 0 || !slices.Equal(p.Write, def.Write) {
		return ""
	}
	return strings.Join(Imports(program.Python.Code), " ")
}

// Imports returns the top-level names of the modules that python code imports in
// statements at its margin, sorted. It reads no more of the language than that takes,
// and of code that is none it may return anything.
func Imports(code string) (names []string) {
	for line := range logicalLines(code) {
		for _, statement := range strings.Split(line, ";") {
			words := strings.Fields(statement)
			if len(words) < 2 {
				continue
			}
			switch {
			case words[0] == "import":
				for _, module := range strings.Split(strings.Join(words[1:], " "), ",") {
					names = appendImport(names, module)
				}
			case words[0] == "from" && slices.Contains(words, "import"):
				names = appendImport(names, words[1])
			}
			if len(names) >= maxImports {
				return names
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func appendImport(names []string, module string) []string {
	name, _, _ := strings.Cut(strings.TrimSpace(module), ".")
	name, _, _ = strings.Cut(name, " ")
	if name == "" || name == "__future__" || !identifier(name) { // relative ones are no modules of an image
		return names
	}
	return append(names, name)
}

func identifier(name string) bool {
	for i, c := range name {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// logicalLines yields the lines of code that begin at the margin, without what is in
// strings and comments, joined where they go on in brackets or after a backslash.
func logicalLines(code string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		var line strings.Builder
		depth, margin := 0, true // in brackets; the line began at the margin
		end := func() bool {
			ok := !margin || line.Len() == 0 || yield(line.String())
			line.Reset()
			return ok
		}
		code = strings.TrimPrefix(code, "\ufeff")
		for i := 0; i < len(code); {
			switch c := code[i]; {
			case c == '\n' || c == '\r':
				i++
				if depth > 0 {
					line.WriteByte(' ')
					continue
				}
				if !end() {
					return
				}
				margin = i >= len(code) || code[i] != ' ' && code[i] != '\t' && code[i] != '\f'
			case c == '#':
				for i < len(code) && code[i] != '\n' && code[i] != '\r' {
					i++
				}
			case c == '\\':
				line.WriteByte(' ')
				i += 2
			case c == '\'' || c == '"':
				i = stringEnd(code, i)
				line.WriteByte('"')
			default:
				switch c {
				case '(', '[', '{':
					depth++
				case ')', ']', '}':
					depth = max(depth-1, 0)
				}
				line.WriteByte(c)
				i++
			}
		}
		end()
	}
}

// stringEnd returns where the string literal ends that begins at i.
func stringEnd(code string, i int) int {
	quote := code[i : i+1]
	if strings.HasPrefix(code[i:], strings.Repeat(quote, 3)) {
		quote = code[i : i+3]
	}
	for i += len(quote); i < len(code); i++ {
		switch {
		case code[i] == '\\':
			i++
		case strings.HasPrefix(code[i:], quote):
			return i + len(quote)
		case code[i] == '\n' && len(quote) == 1:
			return i
		}
	}
	return len(code)
}
