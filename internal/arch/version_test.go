package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/assay-run/assay/internal/version"
)

// TestVersion checks that the files that other tools read have the version of internal/version/VERSION.
func TestVersion(t *testing.T) {
	t.Parallel()
	want := version.Number()
	if !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(want) {
		t.Fatalf("internal/version/VERSION has %q; it should be a version such as 0.1.0", want)
	}
	for _, c := range []struct{ name, pattern string }{
		{"api/openapi.yaml", `(?m)^  version: (.+)$`},
		{"deploy/helm/assay/Chart.yaml", `(?m)^version: (.+)$`},
		{"deploy/helm/assay/Chart.yaml", `(?m)^appVersion: "(.+)"$`},
		{"sdk/python/src/assay/_version.py", `(?m)^__version__ = "(.+)"$`},
	} {
		raw, err := os.ReadFile(filepath.Join("..", "..", c.name))
		if err != nil {
			t.Error(err)
			continue
		}
		if found := regexp.MustCompile(c.pattern).FindSubmatch(raw); found == nil || string(found[1]) != want {
			t.Errorf("%s: %s matches %q; it should be %s", c.name, c.pattern, found, want)
		}
	}
}

// TestPackagesShareVersion checks that both Python packages take their version from one file.
func TestPackagesShareVersion(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"sdk/python/pyproject.toml": `path = "src/assay/_version.py"`,
		"sdk/fleet/pyproject.toml":  `path = "../python/src/assay/_version.py"`,
	} {
		raw, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil || !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(line)).Match(raw) {
			t.Errorf("%s has no line %s (%v)", name, line, err)
		}
	}
}
