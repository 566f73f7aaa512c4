package compose

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
)

// panel is one query of a dashboard.
type panel struct{ dashboard, title, expr string }

// panels reads the queries of all dashboards.
func panels(t *testing.T) (found []panel) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(testenv.RepoRoot(t), "deploy", "observe", "grafana", "dashboards", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		type row struct {
			Title   string
			Targets []struct{ Expr string }
		}
		var d struct {
			Panels []struct {
				row
				Panels []row
			}
		}
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, p := range d.Panels {
			for _, p := range append([]row{p.row}, p.Panels...) {
				for _, q := range p.Targets {
					if q.Expr != "" {
						found = append(found, panel{filepath.Base(file), p.Title, expand(q.Expr)})
					}
				}
			}
		}
	}
	return found
}

// expand replaces Grafana's variables: an interval, and all values of a choice.
func expand(expr string) string {
	for _, v := range []string{"$__rate_interval", "$__interval", "$__range"} {
		expr = strings.ReplaceAll(expr, v, "5m")
	}
	return regexp.MustCompile(`\$\{?[a-zA-Z_]+(:[a-z]+)?\}?`).ReplaceAllString(expr, ".*")
}

// quiet matches metrics without events in this run: pulled images, callbacks, egress,
// infrastructure failures.
var quiet = regexp.MustCompile(`assay_(image_pull|callback|egress|collected|jobs_cached|worker_handed_back|worker_fences)|result="error"`)

// dashboards sends the dashboards' queries to Prometheus, which scraped every process: each query
// has a result.
func (s *stack) dashboards() {
	s.t.Helper()
	at := "http://" + s.port("prometheus", "9090")
	ask := func(path string, q url.Values, into any) {
		s.t.Helper()
		status, body, err := get(s.t.Context(), at+path+"?"+q.Encode())
		if err != nil || status != 200 {
			s.t.Fatalf("%s %v: %d %s %v", path, q, status, body, err)
		}
		if err := json.Unmarshal(body, &struct{ Data any }{into}); err != nil {
			s.t.Fatal(err)
		}
	}
	s.until("Prometheus scrapes every process", func() bool {
		var targets struct {
			ActiveTargets []struct {
				Labels map[string]string
				Health string
			}
		}
		ask("/api/v1/targets", nil, &targets)
		up := map[string]int{}
		for _, target := range targets.ActiveTargets {
			if target.Health == "up" {
				up[target.Labels["job"]]++
			}
		}
		return up["dispatcher"] == 2 && up["worker"] == workers && up["collector"] == 1
	})
	answers := func(expr string) bool { // over the time since the start, as in a panel
		var r struct{ Result []json.RawMessage }
		ask("/api/v1/query_range", url.Values{"query": {expr}, "step": {"5"}, "start": {fmt.Sprint(s.start.Unix())}, "end": {fmt.Sprint(time.Now().Unix())}}, &r)
		return len(r.Result) > 0
	}
	all := slices.DeleteFunc(panels(s.t), func(p panel) bool { return quiet.MatchString(p.expr) })
	missing := all
	for end := time.Now().Add(time.Minute); len(missing) > 0 && time.Now().Before(end); time.Sleep(time.Second) {
		missing = slices.DeleteFunc(slices.Clone(missing), func(p panel) bool { return answers(p.expr) })
	}
	for _, p := range missing {
		s.t.Errorf("%s, %s: nothing answers %s", p.dashboard, p.title, p.expr)
	}
	s.t.Logf("%d of %d queries of the dashboards have answers", len(all)-len(missing), len(all))
}

// traces checks that a job's trace is in Jaeger, from its submit to its record, over dispatcher and
// worker.
func (s *stack) traces(id string) {
	s.t.Helper()
	at := "http://" + s.port("jaeger", "16686") + "/api/traces/" + id
	var services, spans []string
	s.until("Jaeger has the trace "+id, func() bool {
		status, body, err := get(s.t.Context(), at)
		var found struct {
			Data []struct {
				Spans     []struct{ OperationName string }
				Processes map[string]struct{ ServiceName string }
			}
		}
		if err != nil || status != 200 || json.Unmarshal(body, &found) != nil || len(found.Data) != 1 {
			return false
		}
		services, spans = nil, nil
		for _, p := range found.Data[0].Processes {
			services = append(services, p.ServiceName)
		}
		for _, span := range found.Data[0].Spans {
			spans = append(spans, span.OperationName)
		}
		slices.Sort(services)
		services = slices.Compact(services)
		return len(services) >= 2 && slices.Contains(spans, "run") && slices.Contains(spans, "record")
	})
	s.t.Logf("the trace %s: %v of %v", id, spans, services)
}

// The test understands every query of a dashboard.
func TestPanels(t *testing.T) {
	all := panels(t)
	if len(all) < 10 {
		t.Fatalf("only %d queries", len(all))
	}
	for _, p := range all {
		if strings.Contains(p.expr, "$") || !strings.Contains(p.expr, "_") {
			t.Errorf("%s, %s: %s", p.dashboard, p.title, p.expr)
		}
	}
}
