package compose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/client"
)

// patience is for a busy machine with two cores.
const patience = 5 * time.Minute

// stack is the fleet of the compose file.
type stack struct {
	t     *testing.T
	root  string
	env   map[string]string // of .env
	args  []string          // of every call of compose
	start time.Time
	api   *client.Client // as the tenant
	ops   *client.Client // as the operator
}

// images replace public ones, by their target in the Dockerfile here and their variable in .env.
var images = map[string]string{
	"postgres": "ASSAY_POSTGRES_IMAGE", "nats": "ASSAY_NATS_IMAGE", "objects": "ASSAY_OBJECTS_IMAGE", "proxy": "ASSAY_PROXY_IMAGE",
	"prometheus": "ASSAY_PROMETHEUS_IMAGE", "collector": "ASSAY_COLLECTOR_IMAGE", "jaeger": "ASSAY_JAEGER_IMAGE",
}

// override adds parts that only the test needs. It has no Grafana, which cannot be built without a
// registry: the queries of its dashboards go to Prometheus.
const override = `
services:
  index: {image: assay.local/compose-index, networks: [work], stop_grace_period: 1s}
  grafana: {profiles: !override [never]}
`

// newStack builds the images, and makes .env as users do. It starts nothing.
func newStack(t *testing.T) *stack {
	s := &stack{t: t, root: testenv.RepoRoot(t)}
	noNames(t)
	s.build()
	dir := t.TempDir()
	text := s.run("docker", "run", "--rm", "--network=none", "assay.local/dispatcher:latest", "dispatcher", "secrets")
	for target, variable := range images {
		text += fmt.Sprintf("%s=assay.local/compose-%s\n", variable, target)
	}
	text += "ASSAY_DISPATCHER_IMAGE=assay.local/dispatcher:latest\nASSAY_WORKER_IMAGE=assay.local/worker:latest\n" +
		"ASSAY_PORT=0\nASSAY_PROMETHEUS_PORT=0\nASSAY_JAEGER_PORT=0\nASSAY_PIP_INDEX=http://index:8000/simple\n" +
		"COMPOSE_PROFILES=observe\nOTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4317\n"
	s.env = variables(text)
	env, more := filepath.Join(dir, "env"), filepath.Join(dir, "override.yml")
	if err := errors.Join(os.WriteFile(env, []byte(text), 0o600), os.WriteFile(more, []byte(override), 0o600)); err != nil {
		t.Fatal(err)
	}
	s.args = []string{"compose", "--project-name", "assay-test", "--project-directory", s.root, "--env-file", env,
		"--file", filepath.Join(s.root, "docker-compose.yml"), "--file", more}
	return s
}

func variables(text string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			found[name] = value
		}
	}
	return found
}

// build loads the images of `make images` and test/compose/build into the engine.
func (s *stack) build() {
	s.t.Helper()
	made := filepath.Join(s.root, ".cache", "compose")
	s.run("docker", "import", filepath.Join(made, "services.tar"), "assay.local/services")
	dir := s.t.TempDir()
	for _, file := range []string{"nats-server", "versitygw", "jaeger", "otelcol"} {
		s.link(filepath.Join(made, "bin", file), filepath.Join(dir, "bin", file))
	}
	s.link(filepath.Join(s.root, "images", "postgres", "entry"), filepath.Join(dir, "postgres-entry"))
	testenv.PackageIndex(s.t, filepath.Join(dir, "index"))
	for _, target := range append(slices.Sorted(maps.Keys(images)), "index") {
		s.run("docker", "build", "--quiet", "--file", filepath.Join(s.root, "test", "compose", "Dockerfile"), "--target", target,
			"--tag", "assay.local/compose-"+target, dir)
	}
	for _, name := range []string{"worker", "dispatcher"} {
		r, w := io.Pipe()
		go func() {
			w.CloseWithError(asDocker(filepath.Join(s.root, ".cache", "fleet", name+".tar"), "assay.local/"+name+":latest", w))
		}()
		cmd := exec.Command("docker", "load", "--quiet")
		cmd.Stdin = r
		out, err := cmd.CombinedOutput()
		_ = r.CloseWithError(errors.New("docker load ended")) // the other end must not wait
		if err != nil {
			s.t.Fatalf("docker load of %s: %v\n%s", name, err, out)
		}
	}
}

func (s *stack) link(from, to string) {
	s.t.Helper()
	raw, err := os.ReadFile(from)
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, raw, 0o755))
	}
	if err != nil {
		s.t.Fatalf("%v; run: make test-compose", err)
	}
}

// noNames answers every DNS query with NXDOMAIN, for an engine of the test's own. An engine without
// a resolver would leave its containers without an answer until they give up.
func noNames(t *testing.T) {
	t.Helper()
	at := os.Getenv("ASSAY_DNS")
	if at == "" {
		return
	}
	c, err := net.ListenPacket("udp", net.JoinHostPort(at, "53"))
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	t.Cleanup(func() { _ = c.Close(); done.Wait() })
	done.Go(func() {
		for packet := make([]byte, 4096); ; {
			n, from, err := c.ReadFrom(packet)
			if err != nil {
				return
			}
			if n >= 12 {
				packet[2] |= 0x80                     // an answer
				packet[3] = packet[3]&0x70 | 0x80 | 3 // NXDOMAIN
				_, _ = c.WriteTo(packet[:n], from)
			}
		}
	})
}

// run runs a program and returns its output.
func (s *stack) run(name string, args ...string) string {
	s.t.Helper()
	out, err := s.try(name, args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

func (s *stack) try(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out.String(), log.String())
	}
	return out.String(), nil
}

func (s *stack) compose(args ...string) string {
	s.t.Helper()
	return s.run("docker", append(slices.Clone(s.args), args...)...)
}

// up starts everything and waits until all of it is healthy.
func (s *stack) up(workers int) {
	s.t.Helper()
	t := s.t // of the whole test
	t.Cleanup(func() {
		if s.t = t; t.Failed() {
			out, _ := s.try("docker", append(slices.Clone(s.args), "ps", "--all")...)
			logs, _ := s.try("docker", append(slices.Clone(s.args), "logs", "--tail=25", "--no-color")...)
			s.t.Logf("%s\n%s", out, logs)
			ids, _ := s.try("docker", "ps", "--quiet", "--filter=health=unhealthy", "--filter=health=starting")
			for id := range strings.FieldsSeq(ids) {
				health, _ := s.try("docker", "inspect", "--format", "{{.Name}} {{json .State.Health}}", id)
				s.t.Log(health)
			}
		}
		_, _ = s.try("docker", append(slices.Clone(s.args), "down", "--volumes", "--timeout=5", "--remove-orphans")...)
	})
	s.start = time.Now()
	s.compose("up", "--detach", "--no-build", "--wait", fmt.Sprintf("--wait-timeout=%d", int(patience.Seconds())), fmt.Sprintf("--scale=worker=%d", workers))
	at := "http://" + s.port("api", "8080")
	var err, more error
	s.api, err = client.New(at, client.WithToken(s.env["ASSAY_TOKEN"]))
	_, operators, _ := strings.Cut(s.env["ASSAY_TOKENS"], ",")
	operator, _, _ := strings.Cut(operators, "=")
	s.ops, more = client.New(at, client.WithToken(operator))
	if err := errors.Join(err, more); err != nil {
		s.t.Fatal(err)
	}
}

// port returns the published address of a service.
func (s *stack) port(service, port string) string {
	s.t.Helper()
	return strings.TrimSpace(s.compose("port", service, port))
}

// containers returns the ids of a service's running containers.
func (s *stack) containers(service string) []string {
	s.t.Helper()
	return strings.Fields(s.compose("ps", "--quiet", service))
}

// inspect returns the engine's data about a container.
func (s *stack) inspect(id, format string) string {
	s.t.Helper()
	return strings.TrimSpace(s.run("docker", "inspect", "--format", format, id))
}

// until waits for a condition.
func (s *stack) until(what string, cond func() bool) {
	s.t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("never: %s", what)
		}
	}
}

// get sends a request to a published service.
func get(ctx context.Context, url string) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	return resp.StatusCode, body, err
}
