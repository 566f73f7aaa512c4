package runtime

import (
	"slices"
	"strings"

	"github.com/assay-run/assay/pkg/policy"
)

// maxImports is the most modules of a program that are considered.
const maxImports = 64

// ImportsOf returns the initial imports of Python code in the format of Key: the modules in
// statements that always run. It returns "" under a policy that does not suit preloaded
// interpreters, because of its environment or directories.
func ImportsOf(code string, p *policy.Policy) string {
	def := policy.Default()
	if len(p.Env.Set)+len(p.Env.Secrets)+len(p.Read) > 0 || !slices.Equal(p.Write, def.Write) {
		return ""
	}
	return strings.Join(Imports(code), " ")
}

// Imports returns the modules in unindented import statements of Python code, sorted by full name.
// Names imported from a module follow it after a colon, because they may be modules, too. It parses
// only as much as this requires. For invalid code the result is arbitrary.
func Imports(code string) (names []string) {
	for line := range logicalLines(code) {
		for _, statement := range strings.Split(line, ";") {
			if words := strings.Fields(statement); len(words) > 1 {
				names = append(names, importsOf(words)...)
			}
		}
		if len(names) > maxImports {
			break
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), maxImports)]
}

// importsOf returns the imports of a statement with these words.
func importsOf(words []string) (names []string) {
	list := func(words []string) (first []string) { // a as b, c
		for _, item := range strings.Split(strings.Trim(strings.Join(words, " "), "() "), ",") {
			if f := strings.Fields(item); len(f) > 0 && dotted(f[0]) {
				first = append(first, f[0])
			}
		}
		return first
	}
	switch at := slices.IndexFunc(words, func(w string) bool { return w == "import" || strings.HasPrefix(w, "import(") }); {
	case words[0] == "import":
		return list(words[1:])
	// relative imports are not modules of an image
	case words[0] == "from" && at == 2 && dotted(words[1]) && words[1] != "__future__":
		names = append(names, words[1])
		words[at] = strings.TrimPrefix(words[at], "import")
		for _, name := range list(words[at:]) {
			names = append(names, words[1]+":"+name)
		}
	}
	return names
}

// dotted reports whether name is a valid module name.
func dotted(name string) bool {
	for part := range strings.SplitSeq(name, ".") {
		if !identifier(part) {
			return false
		}
	}
	return true
}

func identifier(name string) bool {
	if name == "" {
		return false
	}
	for i, c := range name {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// logicalLines yields the unindented lines of code without strings and comments. It joins lines
// that continue in brackets or after a backslash.
func logicalLines(code string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		var line strings.Builder
		depth, margin := 0, true // nesting of brackets; the line started without indentation
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

// stringEnd returns the end of the string literal that starts at i.
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
