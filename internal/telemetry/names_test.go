package telemetry

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// exported returns the instruments that the sources create, with their kinds.
func exported(t *testing.T) map[string]string {
	t.Helper()
	instrument := regexp.MustCompile(`(?i)(counter|histogram|gauge)\("(assay_[a-z_]+)"`)
	got := map[string]string{}
	for _, dir := range []string{"cmd", "internal", "pkg"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			raw, err := os.ReadFile(path)
			for _, m := range instrument.FindAllStringSubmatch(string(raw), -1) {
				got[m[2]] = strings.ToLower(m[1])
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	got["http_server_request_duration_seconds"] = "histogram"
	return got
}

func page(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(root + "/docs/operate/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestMetricsAreInTheTable checks that the table of the docs has exactly the instruments, with their kinds.
func TestMetricsAreInTheTable(t *testing.T) {
	t.Parallel()
	listed := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `((?:assay|http)_[a-z_]+)` \\| (counter|gauge|histogram) \\|").FindAllStringSubmatch(page(t, "metrics.md"), -1) {
		listed[m[1]] = m[2]
	}
	made := exported(t)
	if len(made) < 50 {
		t.Fatalf("found only %v", made)
	}
	for _, name := range slices.Sorted(maps.Keys(made)) {
		if listed[name] != made[name] {
			t.Errorf("docs/operate/metrics.md has %s as %q, want %s", name, listed[name], made[name])
		}
	}
	for name := range listed {
		if made[name] == "" {
			t.Errorf("docs/operate/metrics.md has %s, which nothing exports", name)
		}
	}
}

// TestAttributesAreInTheTable checks the same for the attributes of spans.
func TestAttributesAreInTheTable(t *testing.T) {
	t.Parallel()
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(assay\\.[a-z]+)` \\|").FindAllStringSubmatch(page(t, "monitoring.md"), -1) {
		listed = append(listed, m[1])
	}
	keys := regexp.MustCompile(`"(assay\.[a-z]+)"`)
	made := map[string]bool{}
	for _, file := range []string{"about.go", root + "/pkg/runtime/meter/meter.go"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range keys.FindAllStringSubmatch(string(raw), -1) {
			made[m[1]] = true
		}
	}
	slices.Sort(listed)
	if want := slices.Sorted(maps.Keys(made)); !slices.Equal(listed, want) {
		t.Errorf("docs/operate/monitoring.md has %v, want %v", listed, want)
	}
}

// TestWhatIsAskedForIsThere checks that dashboards and alerts use existing series by their Prometheus names. A
// counter ends in _total, and a histogram has three series.
func TestWhatIsAskedForIsThere(t *testing.T) {
	t.Parallel()
	series := map[string]bool{}
	for name, kind := range exported(t) {
		switch kind {
		case "counter":
			series[name+"_total"] = true
		case "histogram":
			series[name+"_bucket"], series[name+"_sum"], series[name+"_count"] = true, true, true
		default:
			series[name] = true
		}
	}
	boards, err := filepath.Glob(root + "/deploy/observe/grafana/dashboards/*.json")
	if err != nil || len(boards) != 4 {
		t.Fatal(boards, err)
	}
	asked := regexp.MustCompile(`\b(?:assay|http_server)_[a-z_]+`)
	labels := regexp.MustCompile(`\{[^{}]*\}|by \([^)]*\)`) // some of them look like metrics
	for _, file := range append(boards, root+"/deploy/observe/rules.yml") {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range asked.FindAllString(labels.ReplaceAllString(string(raw), ""), -1) {
			if !series[name] {
				t.Errorf("%s asks for %s, which nothing exports", filepath.Base(file), name)
			}
		}
	}
}
