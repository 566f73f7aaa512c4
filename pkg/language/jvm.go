package language

import (
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// unit lists the top-level declarations of a Java or Scala source.
type unit struct {
	pack   string   // its package; empty: the default package
	types  []string // its classes, interfaces, enumerations and records
	public string   // the first public type: javac requires a file of this name
	mains  []string // the types with an entry point
}

// class returns the entry class of the file, with its package. It prefers the type with the file's
// name.
func (u *unit) class(stem string) string {
	name := stem
	switch {
	case slices.Contains(u.mains, stem):
	case len(u.mains) > 0:
		name = u.mains[0]
	case len(u.types) > 0 && !slices.Contains(u.types, stem):
		name = u.types[0]
	}
	if u.pack != "" {
		name = u.pack + "." + name
	}
	return name
}

// WithoutMark returns a source without its byte order mark. Compilers such as javac reject this
// mark.
func WithoutMark(source string) string { return strings.TrimPrefix(source, "\ufeff") }

// Arrange returns the sources of a program in the form that its tools need, and its entry file and
// class. Without main, the entry is File or the only file with an entry point.
//
// It removes byte order marks and renames a Java file after its public class. The class is empty if
// {class} follows from the file.
func (l *Language) Arrange(main string, sources map[string]string) (file, class string, arranged map[string]string) {
	arranged = make(map[string]string, len(sources))
	for name, text := range sources {
		if slices.Contains(l.Endings, path.Ext(name)) {
			text = WithoutMark(text)
		}
		arranged[name] = text
	}
	if file = main; file == "" {
		file = l.MainOf(arranged)
	}
	if l.scan == nil {
		return file, "", arranged
	}
	if l.byPublic {
		for _, name := range slices.Sorted(maps.Keys(arranged)) {
			to := l.publicName(name, arranged[name])
			if _, taken := arranged[to]; taken {
				continue
			}
			arranged[to] = arranged[name]
			delete(arranged, name)
			if name == file {
				file = to
			}
		}
	}
	u := l.scan(arranged[file])
	return file, u.class(strings.TrimSuffix(path.Base(file), path.Ext(file))), arranged
}

// publicName returns the file name that Java requires for its public class.
func (l *Language) publicName(name, text string) string {
	if !slices.Contains(l.Endings, path.Ext(name)) {
		return name
	}
	if public := l.scan(text).public; public != "" {
		return path.Join(path.Dir(name), public+path.Ext(name))
	}
	return name
}

// MainOf returns the entry file of these sources. This is File or, for languages with declared
// entry points, the only file that declares one. Otherwise it returns File.
func (l *Language) MainOf(sources map[string]string) string {
	if _, ok := sources[l.File]; ok || l.scan == nil {
		return l.File
	}
	found := ""
	for name, text := range sources {
		if slices.Contains(l.Endings, path.Ext(name)) && len(l.scan(text).mains) > 0 {
			if found != "" {
				return l.File
			}
			found = name
		}
	}
	if found == "" {
		return l.File
	}
	return found
}

// scanJava reads the declarations of a Java source. It parses only as much as this requires.
func scanJava(source string) unit {
	s := scanner{rest: source}
	return s.scan(func(u *unit, kind string, before []string) {
		if kind == "main" && slices.Contains(before, "static") && before[len(before)-1] == "void" {
			s.begin(u)
		}
	}, "class", "interface", "enum", "record")
}

// scanScala does the same for Scala, whose entry points are in objects.
func scanScala(source string) unit {
	s := scanner{rest: source, nested: true}
	return s.scan(func(u *unit, kind string, before []string) {
		if kind == "main" && before[len(before)-1] == "def" || kind == "App" && slices.Contains(before, "extends") {
			s.begin(u)
		}
	}, "object")
}

// scanner splits a source of Java or Scala into words and punctuation.
type scanner struct {
	rest    string
	nested  bool   // comments nest, and newlines end statements
	current string // the type being declared or defined
}

// begin records an entry point in the current type.
func (s *scanner) begin(u *unit) {
	if s.current != "" && !slices.Contains(u.mains, s.current) {
		u.mains = append(u.mains, s.current)
	}
}

// scan calls found for entry points: each word main before a parameter list in the body of a type,
// and each App outside of types. It passes the preceding words of the statement. The kinds are the
// keywords that declare a type.
func (s *scanner) scan(found func(u *unit, kind string, before []string), kinds ...string) (u unit) {
	var before []string
	braces, parens := 0, 0
	for word := s.next(); word != ""; word = s.next() {
		switch {
		case word == "(" || word == "[":
			parens++
			if n := len(before); parens == 1 && braces == 1 && n > 1 && before[n-1] == "main" {
				found(&u, "main", before[:n-1])
			}
		case word == ")" || word == "]":
			parens--
		case parens > 0:
		case word == "{":
			braces++
			before = before[:0]
		case word == "}":
			braces--
			before = before[:0]
			if braces == 0 {
				s.current = ""
			}
		case word == ";" || word == "\n" && s.nested && !(braces == 0 && slices.Contains(before, "object")):
			u.notePackage(before, braces)
			before = before[:0]
		case word == "\n":
		default:
			if braces == 0 && len(before) > 0 && slices.Contains(kinds, before[len(before)-1]) && isName(word) {
				s.current = word
				u.types = append(u.types, word)
				if u.public == "" && slices.Contains(before, "public") {
					u.public = word
				}
			}
			if word == "App" && braces == 0 && len(before) > 0 {
				found(&u, "App", before)
			}
			before = append(before, word)
		}
	}
	return u
}

// notePackage records the package from a top-level statement.
func (u *unit) notePackage(words []string, braces int) {
	if i := slices.Index(words, "package"); i >= 0 && braces == 0 && u.pack == "" {
		u.pack = strings.Join(words[i+1:], "")
	}
}

func isName(word string) bool {
	c, _ := utf8.DecodeRuneInString(word)
	return c == '_' || c == '$' || unicode.IsLetter(c)
}

// next returns the next word, punctuation mark or, if comments nest, newline. It returns "" at the
// end. It skips comments and literals.
func (s *scanner) next() string {
	for s.rest != "" {
		c, size := utf8.DecodeRuneInString(s.rest)
		switch {
		case c == '\n' && s.nested:
			s.rest = s.rest[1:]
			return "\n"
		case unicode.IsSpace(c):
			s.rest = s.rest[size:]
		case strings.HasPrefix(s.rest, "//"):
			s.skipTo("\n", 2)
		case strings.HasPrefix(s.rest, "/*"):
			s.skipComment()
		case strings.HasPrefix(s.rest, `"""`):
			s.skipTo(`"""`, 3)
			s.rest = strings.TrimPrefix(s.rest, `"""`)
		case c == '"':
			s.skipLiteral('"')
		case c == '\'':
			s.skipCharacter()
		case isName(s.rest) || unicode.IsDigit(c):
			end := strings.IndexFunc(s.rest, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) && c != '_' && c != '$' })
			if end < 0 {
				end = len(s.rest)
			}
			word := s.rest[:end]
			s.rest = s.rest[end:]
			return word
		default:
			word := s.rest[:size]
			s.rest = s.rest[size:]
			return word
		}
	}
	return ""
}

// skipTo skips size bytes and then everything up to end.
func (s *scanner) skipTo(end string, size int) {
	_, rest, ok := strings.Cut(s.rest[size:], end)
	if !ok {
		s.rest = ""
		return
	}
	s.rest = end + rest
}

func (s *scanner) skipComment() {
	for depth := 0; s.rest != ""; {
		switch {
		case strings.HasPrefix(s.rest, "/*") && (depth == 0 || s.nested):
			depth++
			s.rest = s.rest[2:]
		case strings.HasPrefix(s.rest, "*/"):
			depth--
			s.rest = s.rest[2:]
			if depth == 0 {
				return
			}
		default:
			s.rest = s.rest[1:]
		}
	}
}

// skipLiteral skips a single-line literal.
func (s *scanner) skipLiteral(quote byte) {
	for i := 1; i < len(s.rest); i++ {
		switch s.rest[i] {
		case '\\':
			i++
		case quote:
			s.rest = s.rest[i+1:]
			return
		case '\n':
			s.rest = s.rest[i:]
			return
		}
	}
	s.rest = ""
}

// skipCharacter skips a character, or only the quote before a Scala symbol.
func (s *scanner) skipCharacter() {
	if len(s.rest) > 1 && s.rest[1] == '\\' {
		s.skipLiteral('\'')
		return
	}
	_, size := utf8.DecodeRuneInString(s.rest[1:])
	if strings.HasPrefix(s.rest[1+size:], "'") {
		s.rest = s.rest[2+size:]
		return
	}
	s.rest = s.rest[1:]
}
