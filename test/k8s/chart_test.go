package k8s

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oasdiff/yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	root  = "../.."
	chart = root + "/deploy/helm/assay"
)

// readYAML reads a file as JSON's types.
func readYAML(t *testing.T, path string) (v any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return parseYAML(t, string(raw))
}

func parseYAML(t *testing.T, text string) (v any) {
	t.Helper()
	if _, err := yaml.Unmarshal([]byte(text), &v, yaml.DecodeOpts{}); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	// jsonschema requires the numbers of encoding/json.
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if v, err = jsonschema.UnmarshalJSON(strings.NewReader(string(raw))); err != nil {
		t.Fatal(err)
	}
	return v
}

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	s, err := c.Compile(chart + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestValues checks that the schema accepts the chart's own values and the tests', and refuses
// wrong ones, with their path.
func TestValues(t *testing.T) {
	t.Parallel()
	s := schema(t)
	files, err := filepath.Glob("values/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files of values: %v", len(files), err)
	}
	for _, file := range append(files, chart+"/values.yaml") {
		if err := s.Validate(readYAML(t, file)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for values, path := range map[string]string{
		"nats: {auth: maybe}":                                   "/nats/auth",
		"nats: {generation: 0}":                                 "/nats/generation",
		`nats: {url: "nats://user:secret@nats"}`:                "/nats/url",
		"objects: {url: ftp://x}":                               "/objects/url",
		"dispatcher: {replicas: none}":                          "/dispatcher/replicas",
		"dispatcher: {databaseConnections: 1}":                  "/dispatcher",
		"dispatcher: {limits: {requests: 4000}}":                "/dispatcher",
		"dispatchers: {}":                                       "dispatchers",
		"pools: {}":                                             "/pools",
		"pools: {GPU: {}}":                                      "/pools",
		"pools: {gpu: {replica: 1}}":                            "/pools/gpu",
		"pools: {gpu: {exclusive: maybe}}":                      "/pools/gpu/exclusive",
		"pools: {gpu: {replicas: -1}}":                          "/pools/gpu/replicas",
		"pools: {gpu: {drainSeconds: 2m}}":                      "/pools/gpu/drainSeconds",
		"pools: {gpu: {privileges: none}}":                      "/pools/gpu/privileges",
		"pools: {gpu: {kind: DaemonSet}}":                       "/pools/gpu",
		"pools: {gpu: {autoscaling: {kind: magic}}}":            "/pools/gpu/autoscaling/kind",
		"poolDefaults: {egress: {private: [postgres:5432]}}":    "/poolDefaults/egress/private/0",
		"pools: {gpu: {imagePull: always}}":                     "/pools/gpu",
		"pools: {gpu: {imageSpace: much}}":                      "/pools/gpu/imageSpace",
		"pools: {gpu: {imageMirrors: [mirror.example.com]}}":    "/pools/gpu/imageMirrors/0",
		"pools: {gpu: {imageCredentials: {password: x}}}":       "/pools/gpu/imageCredentials",
		"networkPolicy: {publicPorts: [https]}":                 "/networkPolicy/publicPorts/0",
		"database: {tls: {mode: disable}}":                      "/database/tls/mode",
		"telemetry: {otlpEndpoint: collector}":                  "/telemetry/otlpEndpoint",
		"tenants: [{weight: 1}]":                                "/tenants/0",
		"auth: {secret: Not_A_Name}":                            "/auth/secret",
		"quickstart: {size: big}":                               "/quickstart/size",
		"monitoring: {serviceMonitor: {interval: often}}":       "/monitoring/serviceMonitor/interval",
		"poolDefaults: {autoscaling: {slotsPerWorker: 0}}":      "/poolDefaults/autoscaling/slotsPerWorker",
		"serviceAccounts: {worker: {annotation: {}}}":           "/serviceAccounts/worker",
		"image: {pullPolicy: Sometimes}":                        "/image/pullPolicy",
		"database: {url: \"postgres://assay:secret@db/assay\"}": "/database",
	} {
		err := s.Validate(parseYAML(t, values))
		if err == nil {
			t.Errorf("%s: is taken", values)
		} else if !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want it to name %s", values, err, path)
		}
	}
}

// TestSchemaIsOfTheValues checks that every value of the schema is in values.yaml, which documents
// it, and that the schema has all values of that file.
func TestSchemaIsOfTheValues(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(chart + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		node
		Defs map[string]node `json:"$defs"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	values := readYAML(t, chart+"/values.yaml").(map[string]any)
	delete(s.Properties, "global") // helm sets it for every chart
	s.node.in(t, "", values)
	s.Defs["pool"].in(t, "poolDefaults", values["poolDefaults"].(map[string]any))
}

// TestWorkersFetchEnvironments: workers of a pool share one token, so they are one witness
// together. With two witnesses required, none would fetch an environment.
func TestWorkersFetchEnvironments(t *testing.T) {
	t.Parallel()
	values := readYAML(t, chart+"/values.yaml").(map[string]any)
	if n := values["dispatcher"].(map[string]any)["environmentWitnesses"]; fmt.Sprint(n) != "1" {
		t.Errorf("environmentWitnesses is %v, want 1", n)
	}
}

type node struct {
	Properties map[string]node `json:"properties"`
}

func (n node) in(t *testing.T, at string, values map[string]any) {
	for name, below := range n.Properties {
		v, ok := values[name]
		if !ok && !strings.HasSuffix(at, "pdb") {
			t.Errorf("the schema knows %s.%s, values.yaml does not", at, name)
		}
		if m, ok := v.(map[string]any); ok && len(m) > 0 {
			below.in(t, at+"."+name, m)
		}
	}
}

// TestDashboardsAreCopies: a chart cannot read files outside of it.
func TestDashboardsAreCopies(t *testing.T) {
	t.Parallel()
	list := func(dir string) (names []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	source, copied := root+"/deploy/observe/grafana/dashboards", chart+"/dashboards"
	if s, c := list(source), list(copied); !slices.Equal(s, c) {
		t.Errorf("the chart has %v, want %v", c, s)
	}
	for _, name := range list(source) {
		s, err1 := os.ReadFile(filepath.Join(source, name))
		c, err2 := os.ReadFile(filepath.Join(copied, name))
		if err1 != nil || err2 != nil || string(s) != string(c) {
			t.Errorf("%s differs; cp deploy/observe/grafana/dashboards/* deploy/helm/assay/dashboards/ (%v, %v)", name, err1, err2)
		}
	}
}

// metrics finds names of Assay's metrics in an expression, without the exporter's suffixes.
var metrics = regexp.MustCompile(`\bassay_[a-z_]+`)

// TestMetricsAreThere checks that programs export all metrics of alerts, dashboards and scalers.
func TestMetricsAreThere(t *testing.T) {
	t.Parallel()
	known := exported(t)
	files := []string{chart + "/rules.yaml", chart + "/templates/workers.yaml"}
	more, err := filepath.Glob(chart + "/dashboards/*.json")
	if err != nil || len(more) == 0 {
		t.Fatal(more, err)
	}
	for _, file := range append(files, more...) {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range metrics.FindAllString(string(raw), -1) {
			base := name
			for _, suffix := range []string{"_total", "_bucket", "_sum", "_count"} {
				base = strings.TrimSuffix(base, suffix)
			}
			if !slices.Contains(known, base) {
				t.Errorf("%s asks for %s, which nothing exports", file, name)
			}
		}
	}
}

// exported returns the names of instruments in the sources.
func exported(t *testing.T) (names []string) {
	t.Helper()
	instrument := regexp.MustCompile(`(?i)(?:counter|histogram|gauge)\("(assay_[a-z_]+)"`)
	for _, dir := range []string{"internal", "pkg"} {
		err := filepath.WalkDir(root+"/"+dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			raw, err := os.ReadFile(path)
			for _, m := range instrument.FindAllStringSubmatch(string(raw), -1) {
				names = append(names, m[1])
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(names) < 20 {
		t.Fatalf("found only %v", names)
	}
	return names
}

// TestAlertsHaveRunbooks checks that each alert refers to a heading of its name in the docs.
func TestAlertsHaveRunbooks(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile(root + "/docs/operate/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	rules, ok := readYAML(t, chart+"/rules.yaml").([]any)
	if !ok || len(rules) == 0 {
		t.Fatal("no rules")
	}
	for _, r := range rules {
		rule := r.(map[string]any)
		for _, field := range []string{"alert", "expr", "for", "severity", "summary"} {
			if text, _ := rule[field].(string); text == "" {
				t.Errorf("%v: has no %s", rule["alert"], field)
			}
		}
		if !strings.Contains(string(docs), fmt.Sprintf("\n### %s\n", rule["alert"])) {
			t.Errorf("docs/operate/runbooks.md has no heading %s", rule["alert"])
		}
		if expr, _ := rule["expr"].(string); !strings.Contains(expr, "SELECTOR") {
			t.Errorf("%v: looks at other fleets of the cluster, too", rule["alert"])
		}
	}
}
