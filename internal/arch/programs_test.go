package arch

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// programFolders has, for each folder of internal that belongs to one program, the command of that program.
var programFolders = map[string]string{
	"internal/dispatcher": "cmd/dispatcher",
	"internal/worker":     "cmd/worker",
	"internal/cli":        "cmd/assay",
}

// TestPackagesLieWithTheirProgram checks that only one program imports a package of its folder, and that a package
// directly below internal serves more than one program. Tests may import any of them.
func TestPackagesLieWithTheirProgram(t *testing.T) {
	t.Parallel()
	importers := map[string][]string{}
	for name, r := range table {
		for _, imp := range r.imports {
			importers[imp] = append(importers[imp], name)
		}
	}
	for name := range table {
		for folder, command := range programFolders {
			for _, from := range importers[name] {
				if under(name, folder) && !under(from, folder) && from != command && !isForTests(from) {
					t.Errorf("%s may import %s, which belongs to %s: move it out of %s", from, name, command, folder)
				}
			}
		}
		if strings.Count(name, "/") != 1 || !strings.HasPrefix(name, "internal/") || programFolders[name] != "" || isForTests(name) {
			continue
		}
		if in := programsOf(name, importers); len(in) < 2 {
			t.Errorf("%s serves %v only: move it into the folder of that program", name, in)
		}
	}
}

// isForTests reports whether a package is linked only into tests and their tools.
func isForTests(name string) bool {
	return name == "internal/arch" || slices.Contains(testOnly, name) || strings.HasPrefix(name, "test/")
}

// programsOf returns the main packages that import a package, directly or indirectly.
func programsOf(name string, importers map[string][]string) []string {
	seen, todo := map[string]bool{}, []string{name}
	programs := map[string]bool{}
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		if todo = todo[:len(todo)-1]; seen[p] || isForTests(p) {
			continue
		}
		seen[p] = true
		if strings.HasPrefix(p, "cmd/") || strings.HasPrefix(p, "images/") {
			programs[p] = true
		}
		todo = append(todo, importers[p]...)
	}
	return slices.Sorted(maps.Keys(programs))
}
