package postgres

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestStatementsNameWhatTheSchemaHas checks that tables and columns in statements exist in
// migrations/schema.sql. A server checks far more (see plans_test.go); this test needs no server. It skips
// columns without a table's name, and computed names.
func TestStatementsNameWhatTheSchemaHas(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "migrations", "schema.sql"))
	if err != nil {
		t.Fatal(err)
	}
	schema := readNames(string(raw))
	if len(schema) < 25 || !schema["jobs"]["lease_until"] || !schema["live_jobs"]["lease_until"] {
		t.Fatalf("the schema was not understood: %v", schema)
	}
	statements := literals(t)
	if len(statements) < 100 {
		t.Fatalf("%d statements only", len(statements))
	}
	own := map[string]bool{} // names that the statements define: any part of one may be in another literal
	for _, s := range statements {
		for _, m := range named.FindAllStringSubmatch(s.sql, -1) {
			own[m[1]] = true
		}
	}
	checked := 0
	for _, s := range statements {
		n, problems := schema.check(s.sql, own)
		checked += n
		for _, p := range problems {
			t.Errorf("%s: %s: migrations/schema.sql has none\n%s", s.at, p, s.sql)
		}
	}
	if checked < 500 {
		t.Errorf("%d names were checked: the statements were not understood", checked)
	}
}

func TestNamesAreChecked(t *testing.T) {
	t.Parallel()
	schema := readNames("CREATE TABLE public.a (\n    id uuid NOT NULL,\n    x integer\n);\n\nCREATE VIEW public.live_a AS\n SELECT id, x FROM public.a;\n")
	for sql, want := range map[string]string{
		"SELECT a.id FROM a":                                    "",
		"SELECT l.x FROM live_a l JOIN w ON w.id = l.id":        "",
		"SELECT 1 FROM b":                                       "table b",
		"SELECT l.y FROM live_a AS l":                           "column live_a.y",
		"INSERT INTO a (id, y) VALUES ($1, $2)":                 "column a.y",
		"UPDATE a SET x = 1, y = 2 WHERE id = $1":               "column a.y",
		"INSERT INTO a (id) VALUES ($1) ON CONFLICT DO NOTHING": "",
		"SELECT extract(epoch FROM now()), $1 IS DISTINCT FROM x, 'FROM b' FROM a FOR UPDATE SKIP LOCKED": "",
	} {
		_, problems := schema.check(sql, map[string]bool{"w": true})
		if got := strings.Join(problems, "; "); got != want {
			t.Errorf("%s: %q, want %q", sql, got, want)
		}
	}
}

type statement struct{ at, sql string }

// literals returns the strings of this package and its subpackages that read like SQL.
func literals(t *testing.T) (all []statement) {
	t.Helper()
	var files []string
	for _, folder := range []string{"*.go", "internal/*/*.go"} {
		found, err := filepath.Glob(folder)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	set := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if sql, err := strconv.Unquote(lit.Value); err == nil && keyword.MatchString(sql) {
					all = append(all, statement{set.Position(lit.Pos()).String(), sql})
				}
			}
			return true
		})
	}
	return all
}

// names has the columns of each table, view and sequence.
type names map[string]map[string]bool

var (
	table    = regexp.MustCompile(`(?s)CREATE (?:UNLOGGED )?TABLE public\.(\w+) \((.*?)\n\)`)
	view     = regexp.MustCompile(`(?s)CREATE VIEW public\.(\w+) AS\n(.*?)FROM`)
	sequence = regexp.MustCompile(`CREATE SEQUENCE public\.(\w+)`)
	column   = regexp.MustCompile(`(?m)^    (\w+) `)
	selected = regexp.MustCompile(`(\w+),?\s*$`)

	keyword  = regexp.MustCompile(`\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|FROM|JOIN)\s`)
	quoted   = regexp.MustCompile(`'[^']*'`)
	named    = regexp.MustCompile(`\b(\w+)(?: \([\w, ]+\))? AS (?:NOT )?(?:MATERIALIZED )?\(`)
	operator = regexp.MustCompile(`(?i)extract\(\s*\w+ FROM|DISTINCT FROM|FOR (?:NO KEY )?UPDATE(?: OF \w+)?|DO UPDATE`)
	relation = regexp.MustCompile(`\b(?:FROM|JOIN|INTO|UPDATE)\s+(?:ONLY\s+)?([a-z_][a-z_0-9]*)\b(\s*\()?(?:\s+(?:AS\s+)?([a-z_][a-z_0-9]*)\b)?`)
	dotted   = regexp.MustCompile(`\b([a-z_][a-z_0-9]*)\.([a-z_][a-z_0-9]*)\b`)
	inserted = regexp.MustCompile(`INSERT INTO (\w+) (?:AS \w+ )?\(([^()]*)\)`)
	updated  = regexp.MustCompile(`(?s)UPDATE (\w+)(?: (?:AS )?[a-z]\w*)?\s+SET (.*?)(?:\bFROM\b|\bWHERE\b|\bRETURNING\b|$)`)
	assigned = regexp.MustCompile(`(?:^|,)\s*(\w+) =`)
)

// readNames reads a pg_dump.
func readNames(schema string) names {
	all := names{}
	for _, m := range table.FindAllStringSubmatch(schema, -1) {
		all[m[1]] = map[string]bool{}
		for _, c := range column.FindAllStringSubmatch(m[2], -1) {
			all[m[1]][c[1]] = true
		}
	}
	for _, m := range sequence.FindAllStringSubmatch(schema, -1) {
		all[m[1]] = map[string]bool{"last_value": true, "is_called": true}
	}
	for _, m := range view.FindAllStringSubmatch(schema, -1) {
		all[m[1]] = map[string]bool{}
		for line := range strings.Lines(m[2]) {
			for expression := range strings.SplitSeq(strings.TrimRight(line, ",\n"), ", ") {
				if c := selected.FindStringSubmatch(expression); c != nil {
					all[m[1]][c[1]] = true
				}
			}
		}
	}
	return all
}

// check returns the number of names that it looked up, and the names that the schema lacks. Names in own are
// not tables.
func (all names) check(sql string, own map[string]bool) (n int, problems []string) {
	sql = operator.ReplaceAllString(quoted.ReplaceAllString(sql, "''"), "")
	of := map[string]string{} // alias → table; "": unknown
	for _, m := range relation.FindAllStringSubmatch(sql, -1) {
		switch name, call, alias := m[1], m[2] != "", m[3]; {
		case all[name] != nil:
			for _, a := range []string{name, alias} {
				if before, twice := of[a]; twice && before != name {
					name = ""
				}
				of[a] = name
			}
		case !own[name] && !call && !strings.Contains(" pg_", " "+name[:min(3, len(name))]):
			problems = append(problems, "table "+name)
		default:
			of[alias] = ""
		}
		n++
	}
	look := func(relation, column string) {
		if all[relation] == nil || own[relation] {
			return
		}
		if n++; !all[relation][column] {
			problems = append(problems, "column "+relation+"."+column)
		}
	}
	for _, m := range dotted.FindAllStringSubmatch(sql, -1) {
		look(of[m[1]], m[2])
	}
	for _, m := range inserted.FindAllStringSubmatch(sql, -1) {
		for c := range strings.SplitSeq(m[2], ",") {
			look(m[1], strings.TrimSpace(c))
		}
	}
	for _, m := range updated.FindAllStringSubmatch(sql, -1) {
		for _, c := range assigned.FindAllStringSubmatch(m[2], -1) {
			look(m[1], c[1])
		}
	}
	return n, problems
}
