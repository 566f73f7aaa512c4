//go:build cluster

package k8s

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/client"
)

// patience is for a busy machine with two cores that hosts a whole cluster.
const patience = 3 * time.Minute

// fleet is an installation of the chart.
type fleet struct {
	t         *testing.T
	namespace string
	client    *client.Client
	before    map[string][]string // content of the nodes before, by node
}

// newFleet makes a namespace for all objects of this test, and loads the images into the nodes.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	for _, name := range images {
		archive, err := filepath.Abs(filepath.Join(root, ".cache", "fleet", name+".tar"))
		if err == nil {
			_, err = command(t, "", "sh", "-c", loadImage+` "$0"`, archive)
		}
		if err != nil {
			t.Fatalf("%v; was it built? make images images-quickstart", err)
		}
	}
	f := &fleet{t: t, namespace: fmt.Sprintf("assay-test-%d", time.Now().Unix())}
	kubectl(t, "", "create", "namespace", f.namespace)
	t.Cleanup(func() {
		if t.Failed() {
			f.explain()
			_ = exec.Command(*helmFlag, "uninstall", "fleet", "--namespace", f.namespace).Run()
		}
		_ = exec.Command(*kubectlFlag, "delete", "namespace", f.namespace, "--wait=false").Run()
	})
	return f
}

func (f *fleet) helm(what string, args ...string) {
	f.t.Helper()
	start := time.Now()
	if _, err := helm(f.t, append([]string{what, "fleet", "--namespace", f.namespace}, args...)...); err != nil {
		f.t.Fatal(err)
	}
	f.t.Logf("helm %s took %v", what, time.Since(start).Round(time.Second))
}

func (f *fleet) kubectl(args ...string) string {
	f.t.Helper()
	return kubectl(f.t, "", append([]string{"--namespace", f.namespace}, args...)...)
}

// eventually waits for a condition, and reports whether it became true.
func (f *fleet) eventually(cond func() bool) bool {
	f.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		if cond() {
			return true
		}
	}
	return false
}

func (f *fleet) until(what string, cond func() bool) {
	f.t.Helper()
	start := time.Now()
	if !f.eventually(cond) {
		f.t.Fatalf("never: %s", what)
	}
	f.t.Logf("after %v: %s", time.Since(start).Round(time.Second), what)
}

// pods returns the names of a component's pods that run and are not terminating.
func (f *fleet) pods(component string) (names []string) {
	f.t.Helper()
	return strings.Fields(f.kubectl("get", "pods", "--selector=app.kubernetes.io/component="+component, "--field-selector=status.phase=Running",
		`--output=go-template={{range .items}}{{if not .metadata.deletionTimestamp}}{{.metadata.name}} {{end}}{{end}}`))
}

func (f *fleet) secret(name, key string) string {
	f.t.Helper()
	text, err := base64.StdEncoding.DecodeString(f.kubectl("get", "secret", name, "--output=jsonpath={.data."+key+"}"))
	if err != nil || len(text) == 0 {
		f.t.Fatalf("secret %s has no %s: %v", name, key, err)
	}
	return string(text)
}

const workers = "deployment/fleet-assay-worker-default"

func (f *fleet) scale(n int) {
	f.t.Helper()
	f.kubectl("scale", workers, fmt.Sprintf("--replicas=%d", n))
	f.rolledOut(n)
}

// rolledOut waits until the default pool has n workers, all programs are new and ready, and none is
// terminating. A terminating dispatcher still serves for a while, with its old configuration.
func (f *fleet) rolledOut(n int) {
	f.t.Helper()
	f.kubectl("rollout", "status", workers, "--timeout=8m")
	f.kubectl("rollout", "status", "deployment/fleet-assay-dispatcher", "--timeout=8m")
	count := func(selector string) int {
		return len(strings.Fields(f.kubectl("get", "pods", "--selector="+selector, "--output=name")))
	}
	f.until(fmt.Sprintf("%d workers, and nothing that is going", n), func() bool {
		return count("assay.dev/pool=default") == n && count("app.kubernetes.io/component=dispatcher") == 2
	})
}

// forward forwards a local port to an object in the cluster, and waits until it answers.
func (f *fleet) forward(what string, port int) (local int, stop func()) {
	f.t.Helper()
	local = freePort(f.t)
	cmd := exec.Command(*kubectlFlag, "--namespace", f.namespace, "port-forward", what, fmt.Sprintf("%d:%d", local, port))
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	stop = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	if !f.eventually(func() bool {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", local))
		if err == nil {
			conn.Close()
		}
		return err == nil
	}) {
		stop()
		f.t.Fatalf("%s cannot be reached", what)
	}
	return local, stop
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// connect makes the client, through a forwarded port.
func (f *fleet) connect() {
	f.t.Helper()
	port := freePort(f.t)
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			f.forwardOnce(ctx, port, i)
			time.Sleep(200 * time.Millisecond)
		}
	}()
	f.t.Cleanup(func() { cancel(); <-done })
	var err error
	if f.client, err = client.New(fmt.Sprintf("http://127.0.0.1:%d", port), client.WithToken(f.secret("fleet-assay-tokens", "token")), client.WithPatience(patience)); err != nil {
		f.t.Fatal(err)
	}
}

// forwardOnce forwards a port to the i-th dispatcher, as long as that is ready: a killed node does
// not close its connections.
func (f *fleet) forwardOnce(ctx context.Context, port, i int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, err := exec.CommandContext(ctx, *kubectlFlag, "--namespace", f.namespace, "get", "pods", "--selector=app.kubernetes.io/component=dispatcher", "--field-selector=status.phase=Running",
		`--output=go-template={{range .items}}{{if not .metadata.deletionTimestamp}}{{.metadata.name}} {{end}}{{end}}`).Output()
	pods := strings.Fields(string(out))
	if err != nil || len(pods) == 0 {
		return
	}
	cmd := exec.CommandContext(ctx, *kubectlFlag, "--namespace", f.namespace, "port-forward", "pod/"+pods[i%len(pods)], fmt.Sprintf("%d:8080", port))
	if cmd.Start() != nil {
		return
	}
	go func() {
		defer cancel()
		asker := http.Client{Timeout: 5 * time.Second}
		for failures := 0; failures < 4 && ctx.Err() == nil; time.Sleep(time.Second) {
			failures++
			if resp, err := asker.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", port)); err == nil {
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					failures = 0
				}
			}
		}
	}()
	_ = cmd.Wait()
}

// explain prints the cluster's state after a failure.
func (f *fleet) explain() {
	for _, args := range [][]string{{"get", "pods", "--output=wide"}, {"get", "events", "--sort-by=.lastTimestamp"},
		{"logs", "--selector=app.kubernetes.io/instance=fleet", "--all-containers", "--prefix", "--tail=40", "--max-log-requests=20"}} {
		out, _ := exec.Command(*kubectlFlag, append([]string{"--namespace", f.namespace}, args...)...).CombinedOutput()
		f.t.Logf("kubectl %s:\n%s", strings.Join(args, " "), out[max(0, len(out)-12000):])
	}
}
