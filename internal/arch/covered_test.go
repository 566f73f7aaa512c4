package arch

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// smallLines is the size in lines below which a package of one file must give its reason.
const smallLines = 100

// coveredBy names, for each package without tests of its own, the package with the suite that covers it.
var coveredBy = map[string]string{
	"images":                                     "internal/cli/dev",
	"internal/daemon":                            "internal/cli/dev",
	"internal/dispatcher/httpapi/account":        "internal/dispatcher/httpapi",
	"internal/dispatcher/httpapi/browse":         "internal/dispatcher/httpapi",
	"internal/dispatcher/httpapi/files":          "internal/dispatcher/httpapi",
	"internal/dispatcher/httpapi/sessions":       "internal/dispatcher/httpapi",
	"internal/dispatcher/httpapi/web":            "internal/dispatcher/httpapi",
	"internal/dispatcher/identity/oidc/oidctest": "internal/dispatcher/identity/oidc",
	"internal/dispatcher/session":                "internal/dispatcher/httpapi",
	"internal/fault":                             "test/e2e",
	"pkg/fleet":                                  "pkg/store/postgres",
	"pkg/queue":                                  "pkg/queue/jetstream",
	"pkg/queue/queuetest":                        "pkg/queue/jetstream",
	"pkg/runtime/containerd/engine":              "pkg/runtime/containerd",
	"pkg/runtime/containerd/image/imagetest":     "pkg/runtime/containerd/image",
	"pkg/runtime/environment/environmenttest":    "pkg/runtime/containerd",
	"pkg/runtime/poll":                           "pkg/runtime/process",
	"pkg/runtime/runtimetest":                    "pkg/runtime/fake",
	"pkg/store":                                  "pkg/store/postgres",
	"pkg/store/postgres/internal/pgtest":         "pkg/store/postgres/internal/lifecycle",
	"pkg/store/postgres/internal/registry":       "pkg/store/postgres",
	"pkg/store/storetest":                        "pkg/store/postgres",
}

// small gives the reason of each package of one file below smallLines.
var small = map[string]string{
	"api/openapi":            "it embeds a file that only the dispatcher serves",
	"cmd/guest":              "a program",
	"images":                 "an embedded folder can be named only from beside it",
	"internal/budget":        "decoders and the worker share one account of memory",
	"internal/pause":         "programs without any other common import use it",
	"internal/site":          "the dispatcher and the worker's metrics check origins the same way",
	"internal/sysmon":        "every program imports it for its effect",
	"internal/version":       "the linker sets its variable by this path",
	"migrations":             "an embedded folder can be named only from beside it",
	"pkg/queue":              "an interface apart from its implementation",
	"pkg/runtime/background": "containers and cells share it, and import nothing of each other",
	"pkg/runtime/environment/environmenttest": "test tools must not be linked into programs",
	"pkg/runtime/poll":                        "the grader and the sandbox share it without control groups",
}

// TestPackagesAreCovered checks that each package has tests or names a suite that links it. Suites in test run
// the programs instead.
func TestPackagesAreCovered(t *testing.T) {
	pkgs, _ := load(t)
	byName, tested := map[string]pkg{}, map[string]bool{}
	for _, p := range pkgs {
		name := strings.TrimPrefix(p.ImportPath, "./")
		byName[name], tested[name] = p, len(p.TestImports)+len(p.XTestImports) > 0
	}
	for name := range byName {
		suite := coveredBy[name]
		switch {
		case isForDemonstration(name):
		case tested[name] && suite != "":
			t.Errorf("%s has tests: take it from the list of internal/arch/covered_test.go", name)
		case tested[name]:
		case suite == "":
			t.Errorf("%s has no tests: write one, or name the suite that covers it in internal/arch/covered_test.go", name)
		case !tested[suite]:
			t.Errorf("%s is covered by %s, which has no tests", name, suite)
		case !strings.HasPrefix(suite, "test/") && !links(byName, suite, name):
			t.Errorf("%s is covered by %s, whose tests do not link it", name, suite)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(coveredBy)) {
		if _, ok := byName[name]; !ok {
			t.Errorf("there is no package %s: take it from the list of internal/arch/covered_test.go", name)
		}
	}
}

// links reports whether the tests of a suite link a package.
func links(byName map[string]pkg, suite, name string) bool {
	s, want := byName[suite], "./"+name
	for _, imp := range slices.Concat(s.Imports, s.TestImports, s.XTestImports) {
		if imp == want || slices.Contains(byName[strings.TrimPrefix(imp, "./")].Deps, want) {
			return true
		}
	}
	return false
}

// TestSmallPackagesGiveTheirReason checks that a package of one short file argues for itself.
func TestSmallPackagesGiveTheirReason(t *testing.T) {
	t.Parallel()
	files, lines := map[string]int{}, map[string]int{}
	for name, f := range sources(t) {
		if f.ast != nil && !strings.HasSuffix(name, "_test.go") {
			files[path.Dir(name)]++
			lines[path.Dir(name)] += f.lines
		}
	}
	for name := range table {
		isSmall := files[name] == 1 && lines[name] < smallLines && !isForDemonstration(name)
		if isSmall && small[name] == "" {
			t.Errorf("%s is one file of %d lines: merge it, or give its reason in internal/arch/covered_test.go", name, lines[name])
		}
		if !isSmall && small[name] != "" {
			t.Errorf("%s is not small: take it from the list of internal/arch/covered_test.go", name)
		}
	}
}

// isForDemonstration reports whether a package is a suite, a tool of suites, or an example.
func isForDemonstration(name string) bool {
	return name == "internal/arch" || strings.HasPrefix(name, "test/") || strings.HasPrefix(name, "examples/")
}
