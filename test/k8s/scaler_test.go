//go:build cluster

package k8s

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// slotsPerWorker and a maximum of four workers: a backlog of 13 slots or more needs all four.
const slotsPerWorker = 4

// byMetric scales the workers from one to four and back by the backlog that dispatchers export,
// while jobs run. If the cluster can reach this machine, the chart's HorizontalPodAutoscaler
// scales. This test then replaces the Prometheus adapter, as the API of external metrics. Otherwise
// the test scales like such a scaler.
func (f *fleet) byMetric() {
	f.t.Helper()
	if testAddress != "" {
		defer f.serveMetrics()()
		f.helm("upgrade", f.values(1, "--set", fmt.Sprintf("poolDefaults.autoscaling.kind=hpa,poolDefaults.autoscaling.minReplicas=1,poolDefaults.autoscaling.maxReplicas=4,"+
			"poolDefaults.autoscaling.slotsPerWorker=%d,poolDefaults.autoscaling.scaleDownSeconds=5", slotsPerWorker))...)
	} else {
		defer f.scaleByHand()()
	}
	count := func() string {
		return strings.TrimSpace(f.kubectl("get", workers, "--output=jsonpath={.spec.replicas} {.status.readyReplicas}"))
	}
	f.during("workers by the metric", drained, func(l *load) {
		f.until("four workers, as the backlog is large", func() bool { return count() == "4 4" })
		l.width.Store(1)
		f.until("one worker, as the backlog is small", func() bool { return count() == "1 1" })
	})
	f.sleepers(count)
}

// sleepers runs 12 jobs that sleep, which need three workers. The scaler keeps three while they
// run, for several of its periods and cooldowns, although the jobs have freed their slots after 100
// ms.
func (f *fleet) sleepers(count func() string) {
	f.t.Helper()
	const jobs, workersOfThem = 12, "3 3"
	b, err := f.client.SubmitSpecs(f.t.Context(), client.BatchOptions{Name: "sleepers"}, func(yield func(job.Spec) bool) {
		for i := range jobs {
			s := job.Spec{Name: fmt.Sprint(i), Program: job.Program{Python: &job.Python{Code: "import time; time.sleep(3600)"}}, Policy: json.RawMessage(`{"wall":"1h"}`)}
			if !yield(s) {
				return
			}
		}
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.until("all of them run", func() bool { return f.backlog("default") == jobs && count() == workersOfThem })
	for since := time.Now(); time.Since(since) < time.Minute; time.Sleep(2 * time.Second) {
		if n := count(); n != workersOfThem {
			f.t.Errorf("beside %d jobs that sleep there are %q workers, and the metric is %g", jobs, n, f.backlog("default"))
			break
		}
	}
	if _, err := f.client.CancelBatch(f.t.Context(), b.ID); err != nil {
		f.t.Error(err)
	}
	f.until("one worker, as they are canceled", func() bool { return count() == "1 1" })
}

// backlog returns a pool's metric as a scraper reads it; of several dispatchers the highest.
func (f *fleet) backlog(pool string) (most float64) {
	line := regexp.MustCompile(`(?m)^assay_backlog_slots\{[^}]*\bpool="` + pool + `"[^}]*\} (\S+)$`)
	out, _ := exec.Command(*kubectlFlag, "--namespace", f.namespace, "get", "pods", "--selector=app.kubernetes.io/component=dispatcher", "--output=jsonpath={.items[*].metadata.name}").Output()
	for _, pod := range strings.Fields(string(out)) {
		page, _ := exec.Command(*kubectlFlag, "get", "--raw", fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:9090/proxy/metrics", f.namespace, pod)).Output()
		for _, m := range line.FindAllStringSubmatch(string(page), -1) {
			v, _ := strconv.ParseFloat(m[1], 64)
			most = max(most, v)
		}
	}
	return most
}

// scaleByHand scales as an HPA does, until it is stopped.
func (f *fleet) scaleByHand() (stop func()) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-over:
				return
			case <-time.After(2 * time.Second):
			}
			n := min(4, max(1, (int(f.backlog("default"))+slotsPerWorker-1)/slotsPerWorker))
			_ = exec.Command(*kubectlFlag, "--namespace", f.namespace, "scale", workers, fmt.Sprintf("--replicas=%d", n)).Run()
		}
	}()
	return func() { close(over); <-done }
}

const externalMetrics = "external.metrics.k8s.io"

// serveMetrics makes this test the cluster's API of external metrics.
func (f *fleet) serveMetrics() (stop func()) {
	f.t.Helper()
	list := func(w http.ResponseWriter, v map[string]any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /apis/"+externalMetrics+"/v1beta1", func(w http.ResponseWriter, _ *http.Request) {
		list(w, map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": externalMetrics + "/v1beta1", "resources": []any{
			map[string]any{"name": "assay_backlog_slots", "singularName": "", "namespaced": true, "kind": "ExternalMetricValueList", "verbs": []string{"get"}}}})
	})
	mux.HandleFunc("GET /apis/"+externalMetrics+"/v1beta1/namespaces/{namespace}/assay_backlog_slots", func(w http.ResponseWriter, r *http.Request) {
		want := "namespace=" + f.namespace + ",pool=default"
		if r.PathValue("namespace") != f.namespace || r.URL.Query().Get("labelSelector") != want {
			http.Error(w, fmt.Sprintf("%s: this is for %s", r.URL, want), http.StatusBadRequest)
			return
		}
		list(w, map[string]any{"kind": "ExternalMetricValueList", "apiVersion": externalMetrics + "/v1beta1", "metadata": map[string]any{}, "items": []any{
			map[string]any{"metricName": "assay_backlog_slots", "metricLabels": map[string]string{}, "timestamp": time.Now().UTC().Format(time.RFC3339), "value": fmt.Sprint(int(f.backlog("default")))}}})
	})
	server := httptest.NewUnstartedServer(mux)
	l, err := net.Listen("tcp", net.JoinHostPort(testAddress, "0"))
	if err != nil {
		f.t.Fatalf("ASSAY_TEST_ADDRESS: %v", err)
	}
	server.Listener.Close()
	server.Listener = l
	server.StartTLS()
	apply := strings.NewReplacer("ADDRESS", testAddress, "PORT", fmt.Sprint(l.Addr().(*net.TCPAddr).Port), "NAMESPACE", f.namespace).Replace(metricsAPI)
	if _, err := command(f.t, apply, *kubectlFlag, "apply", "--filename=-"); err != nil {
		f.t.Fatal(err)
	}
	return func() {
		if out, err := exec.Command(*kubectlFlag, "delete", "apiservice", "v1beta1."+externalMetrics).CombinedOutput(); err != nil {
			f.t.Errorf("%v: %s", err, out)
		}
		_ = exec.Command(*kubectlFlag, "--namespace", f.namespace, "delete", "service", "test-metrics").Run()
		server.Close()
	}
}

const metricsAPI = `
apiVersion: v1
kind: Service
metadata: {name: test-metrics, namespace: NAMESPACE}
spec: {type: ExternalName, externalName: "ADDRESS", ports: [{name: https, port: PORT}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.external.metrics.k8s.io}
spec:
  group: external.metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: test-metrics, namespace: NAMESPACE, port: PORT}
`
