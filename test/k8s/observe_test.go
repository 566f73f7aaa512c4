package k8s

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write deploy/observe/rules.yml anew")

// TestRulesOutsideOfClusters checks that a plain Prometheus, such as the compose file's, has the
// alerts of the chart. It distinguishes processes by job and instance.
func TestRulesOutsideOfClusters(t *testing.T) {
	t.Parallel()
	rules, ok := readYAML(t, chart+"/rules.yaml").([]any)
	if !ok || len(rules) == 0 {
		t.Fatal("no rules")
	}
	var b strings.Builder
	b.WriteString("# Written by go test ./test/k8s -run RulesOutside -update, from the chart's rules. Runbooks are in docs/operate/runbooks.md, by name.\n")
	b.WriteString("groups:\n  - name: assay\n    rules:\n")
	plain := strings.NewReplacer(`,SELECTOR`, "", "{SELECTOR}", "", `component="dispatcher"`, `job="dispatcher"`, "(pod)", "(instance)", "$labels.pod", "$labels.instance")
	for _, r := range rules {
		rule := r.(map[string]any)
		fmt.Fprintf(&b, "      - alert: %s\n        expr: %q\n        for: %s\n        labels: {severity: %s}\n        annotations: {summary: %q}\n",
			rule["alert"], plain.Replace(rule["expr"].(string)), rule["for"], rule["severity"], plain.Replace(rule["summary"].(string)))
	}
	if strings.Contains(b.String(), "SELECTOR") || strings.Contains(b.String(), "pod") {
		t.Errorf("names of a cluster are left:\n%s", b.String())
	}
	const file = root + "/deploy/observe/rules.yml"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have, err := os.ReadFile(file); err != nil || string(have) != b.String() {
		t.Errorf("deploy/observe/rules.yml is not what the chart says: run go test ./test/k8s -run RulesOutside -update (%v)", err)
	}
}
