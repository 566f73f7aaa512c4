package arch

import (
	"go/ast"
	"path"
	"regexp"
	"strings"
	"testing"
)

// term is a row of docs/glossary.md.
type term struct {
	word, meaning, where string   // where has a path and an identifier, in backticks
	never                []string // words that are not used for it
}

var backticked = regexp.MustCompile("`([^`]+)`")

// glossary reads the tables of docs/glossary.md.
func glossary(t *testing.T) (terms []term) {
	t.Helper()
	for line := range strings.Lines(read(t, "../../docs/glossary.md")) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 6 || strings.HasPrefix(line, "|---") || strings.TrimSpace(cells[1]) == "word" {
			if strings.HasPrefix(line, "|") && len(cells) != 6 {
				t.Errorf("a row without four cells: %s", line)
			}
			continue
		}
		row := term{word: strings.TrimSpace(cells[1]), meaning: strings.TrimSpace(cells[2]), where: strings.TrimSpace(cells[3])}
		for _, m := range backticked.FindAllStringSubmatch(cells[4], -1) {
			row.never = append(row.never, m[1])
		}
		if rest := strings.Trim(backticked.ReplaceAllString(cells[4], ""), " ,"); rest != "" {
			t.Errorf("%s: %q is neither in backticks nor a comma", row.word, rest)
		}
		terms = append(terms, row)
	}
	return terms
}

// TestGlossary checks that each word has one row, that each former word has one replacement, and that
// each row has a meaning.
func TestGlossary(t *testing.T) {
	terms := glossary(t)
	if len(terms) < 50 {
		t.Fatalf("%d rows only", len(terms))
	}
	words := map[string]string{} // any word, lower case → its row
	for _, row := range terms {
		for _, word := range append([]string{row.word}, row.never...) {
			if before, twice := words[strings.ToLower(word)]; twice && before != row.word {
				t.Errorf("%q is in the rows of %q and of %q", word, before, row.word)
			} else if twice && word == row.word {
				t.Errorf("%q has two rows", word)
			}
			words[strings.ToLower(word)] = row.word
		}
		if row.meaning == "" {
			t.Errorf("%q has no meaning", row.word)
		}
	}
}

// TestGlossaryIdentifiers checks that the third column of each row names an identifier that its
// directory or file declares.
func TestGlossaryIdentifiers(t *testing.T) {
	t.Parallel()
	declared := map[string]map[string]bool{} // by directory and by file
	for name, f := range sources(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, identifier := range declarations(f) {
			for _, place := range []string{name, path.Dir(name)} {
				if declared[place] == nil {
					declared[place] = map[string]bool{}
				}
				declared[place][identifier] = true
			}
		}
	}
	for _, row := range glossary(t) {
		place := backticked.FindAllStringSubmatch(row.where, -1)
		if len(place) != 2 || row.where != place[0][0]+": "+place[1][0] {
			t.Errorf("%q: the place is %q; write `path`: `identifier`", row.word, row.where)
		} else if !declared[place[0][1]][place[1][1]] {
			t.Errorf("%q: %s declares no %s; correct its row in docs/glossary.md", row.word, place[0][1], place[1][1])
		}
	}
}

var pythonDeclaration = regexp.MustCompile(`(?m)^(?:(?:async )?def |class )(\w+)`)

// declarations returns the identifiers that a file declares: functions, types, constants and
// variables, and Type.Member for methods and fields. Of Python files it returns functions and classes.
func declarations(f *source) (names []string) {
	if f.ast == nil {
		for _, m := range pythonDeclaration.FindAllStringSubmatch(f.text, -1) {
			names = append(names, m[1])
		}
		return names
	}
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names = append(names, receiver(d)+d.Name.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				names = append(names, specified(spec)...)
			}
		}
	}
	return names
}

// specified returns the identifiers of one constant, variable or type, with the members of a type.
func specified(spec ast.Spec) (names []string) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, id := range spec.Names {
			names = append(names, id.Name)
		}
	case *ast.TypeSpec:
		names = append(names, spec.Name.Name)
		for _, member := range members(spec.Type) {
			names = append(names, spec.Name.Name+"."+member)
		}
	}
	return names
}

// receiver returns the name of a method's type and a dot, or "" for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	expr := d.Recv.List[0].Type
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	switch generic := expr.(type) {
	case *ast.IndexExpr:
		expr = generic.X
	case *ast.IndexListExpr:
		expr = generic.X
	}
	if id, ok := expr.(*ast.Ident); ok {
		return id.Name + "."
	}
	return ""
}

// members returns the names of a struct's fields or of an interface's methods.
func members(expr ast.Expr) (names []string) {
	var list *ast.FieldList
	switch expr := expr.(type) {
	case *ast.StructType:
		list = expr.Fields
	case *ast.InterfaceType:
		list = expr.Methods
	default:
		return nil
	}
	for _, field := range list.List {
		for _, id := range field.Names {
			names = append(names, id.Name)
		}
	}
	return names
}
