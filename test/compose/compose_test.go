package compose

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

var (
	jobs      = flag.Int("compose.jobs", 300, "how many jobs")
	forbidden = flag.String("compose.forbidden", "", "the test binary of pkg/queue/jetstream, whose TestForbidden is run against the deployed NATS")
	after     = flag.String("compose.after", "", "a program to run while everything is up, with PROMETHEUS, JAEGER and TRACE set, such as one that takes pictures")
)

func TestMain(m *testing.M) { testenv.Main(m) }

const workers = 3

// asDescribed checks the started services.
func (s *stack) asDescribed() {
	s.t.Helper()
	dispatchers := s.containers("dispatcher")
	if len(dispatchers) != 2 || len(s.containers("worker")) != workers {
		s.t.Fatalf("%d dispatchers, %d workers", len(dispatchers), len(s.containers("worker")))
	}
	for _, id := range dispatchers {
		if got := s.inspect(id, "{{.Config.User}} {{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}}"); got != "65532:65532 true [ALL]" {
			s.t.Errorf("a dispatcher runs as %s", got)
		}
	}
	status, _, err := get(s.t.Context(), "http://"+s.port("api", "8080")+"/v1/workers")
	if err != nil || status != http.StatusUnauthorized {
		s.t.Errorf("without a token: %d, %v", status, err)
	}
	s.until("each worker offers every isolation", func() bool { // their next heartbeat reports it
		ws, err := s.ops.Workers(s.t.Context())
		if err != nil || len(ws) != workers {
			s.t.Fatalf("%d workers, %v", len(ws), err)
		}
		return !slices.ContainsFunc(ws, func(w store.Worker) bool {
			var host policy.Host
			err := json.Unmarshal(w.Host, &host)
			return err != nil || !slices.Equal(host.Isolations, []policy.Isolation{policy.Cell, policy.Task, policy.GVisor})
		})
	})
}

// wanted is a job and its required result.
type wanted struct {
	spec    map[string]any
	outcome job.Outcome
	stdout  string

	artifact string // its content is the job's name
}

// kinds are the jobs of the load, in turn.
var kinds = []func(name string) wanted{
	ends("cell", "print('NAME')", job.Succeeded), ends("task", "print('NAME')", job.Succeeded), ends("cell", "print('NAME'); 1/0", job.Exception),
	ends("cell", "import friendly; print('NAME', friendly.word)", job.Succeeded, "friendly==1.0"), ends("gvisor", "print('NAME')", job.Succeeded),
	ends("cell", "import time; print('NAME', flush=True); time.sleep(600)", job.TimedOut), ends("cell", "import time; time.sleep(0.5); print('NAME')", job.Succeeded),
	ends("task", "import friendly; print('NAME', friendly.word)", job.Succeeded, "friendly==1.0"),
	ends("cell", "import sys; print('NAME'); sys.exit(3)", job.Failed), keeps("print('NAME'); open('/workspace/NAME', 'w').write('NAME')"),
}

// keeps returns a job with an artifact, which goes through the object store.
func keeps(code string) func(string) wanted {
	return func(name string) wanted {
		w := ends("cell", code, job.Succeeded)(name)
		w.artifact = "/workspace/" + name
		w.spec["policy"].(map[string]any)["artifacts"] = map[string]any{"paths": []string{w.artifact}}
		return w
	}
}

func ends(level, code string, outcome job.Outcome, packages ...string) func(string) wanted {
	return func(name string) wanted {
		wall, stdout := "2m", name
		if outcome == job.TimedOut {
			wall = "10s" // enough to print, on any machine
		}
		if packages != nil {
			stdout += " hello"
		}
		return wanted{spec: map[string]any{
			"name": name, "program": map[string]any{"python": map[string]any{"code": strings.ReplaceAll(code, "NAME", name)}},
			"policy": map[string]any{"isolation": level, "wall": wall, "packages": packages},
		}, outcome: outcome, stdout: stdout + "\n"}
	}
}

func nth(i int) wanted { return kinds[i%len(kinds)](fmt.Sprintf("job-%d", i)) }

// load submits jobs. It kills a worker and a dispatcher when a fifth is done, starts them again,
// and waits for the end. It also returns the trace of one job that ran before all others.
func (s *stack) load(n int) (batch job.ID, trace string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience+time.Duration(n)*time.Second)
	defer cancel()
	res, err := s.api.Run(ctx, job.Spec{Program: job.Program{Python: &job.Python{Code: "print(6 * 7)"}}})
	if err != nil || res.Stdout.Text != "42\n" {
		s.t.Fatalf("one job: %+v, %v", res, err)
	}
	var lines strings.Builder
	for i := range n {
		raw, err := json.Marshal(nth(i).spec)
		if err != nil {
			s.t.Fatal(err)
		}
		lines.Write(append(raw, '\n'))
	}
	b, err := s.api.SubmitBatch(ctx, client.BatchOptions{Name: "load"}, strings.NewReader(lines.String()))
	if err != nil {
		s.t.Fatal(err)
	}
	start := time.Now()
	finished := func() int {
		got, err := s.api.Batch(ctx, b.ID, 0)
		if err != nil {
			s.t.Fatal(err)
		}
		return int(got.Counts[job.Finished])
	}
	for finished() < n/5 {
		time.Sleep(100 * time.Millisecond)
	}
	worker, dispatcher := s.containers("worker")[0], s.containers("dispatcher")[0]
	s.run("docker", "kill", worker, dispatcher)
	s.t.Logf("killed a worker and a dispatcher when %d of %d were done", finished(), n)
	time.Sleep(5 * time.Second) // their downtime
	s.run("docker", "start", worker, dispatcher)
	for finished() < n {
		if ctx.Err() != nil {
			s.t.Fatalf("%d of %d are done", finished(), n)
		}
		time.Sleep(200 * time.Millisecond)
	}
	s.t.Logf("%d jobs in %.1fs", n, time.Since(start).Seconds())
	return b.ID, res.TraceID
}

// exactlyOnce compares each record with its job.
func (s *stack) exactlyOnce(batch job.ID, n int) {
	s.t.Helper()
	seen, again := map[string]int{}, 0
	byWorker := map[string]int{}
	for raw, err := range s.api.Results(s.t.Context(), batch, false) {
		var r job.Result
		if err == nil {
			err = json.Unmarshal(raw, &r)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		seen[r.Name]++
		var i int
		if _, err := fmt.Sscanf(r.Name, "job-%d", &i); err != nil {
			s.t.Fatalf("a result of %q", r.Name)
		}
		want := nth(i)
		if r.Outcome != want.outcome || r.Stdout.Text != want.stdout {
			s.t.Errorf("%s: %s (%s) with %q, want %s with %q", r.Name, r.Outcome, r.Message, r.Stdout.Text, want.outcome, want.stdout)
		} else if want.artifact != "" {
			s.download(r.ID, want.artifact, r.Name)
		}
		if len(r.Attempts) > 1 {
			again++
		}
		if len(r.Attempts) > 0 {
			byWorker[r.Attempts[len(r.Attempts)-1].Worker]++
		}
	}
	for i := range n {
		if name := fmt.Sprintf("job-%d", i); seen[name] != 1 {
			s.t.Errorf("%s has %d records", name, seen[name])
		}
	}
	s.t.Logf("%d records; ran again: %d; by worker: %v", len(seen), again, byWorker)
	if len(byWorker) < 2 {
		s.t.Errorf("only %v ran jobs", byWorker)
	}
}

func (s *stack) download(id job.ID, path, want string) {
	s.t.Helper()
	r, err := s.api.Artifact(s.t.Context(), id, path)
	if err != nil {
		s.t.Errorf("%s of %s: %v", path, id, err)
		return
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != want {
		s.t.Errorf("%s of %s is %q, %v; want %q", path, id, got, err, want)
	}
}

// session executes in a session, through any dispatcher.
func (s *stack) session() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	created, err := s.api.CreateSession(ctx, job.SessionSpec{})
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range 6 {
		got, err := s.api.Execute(ctx, created.ID, api.ExecuteRequest{Code: "x = globals().get('x', 0) + 1; print(x)"})
		if want := fmt.Sprintf("%d\n", i+1); err != nil || got.Stdout.Text != want {
			s.t.Fatalf("step %d: %+v, %v", i, got, err)
		}
	}
	if _, err := s.api.CloseSession(ctx, created.ID); err != nil {
		s.t.Error(err)
	}
}

const environments = "/var/lib/assay/environments"

// environmentsStay checks that a built environment survives a restart of all workers, and is used
// after the index is gone.
func (s *stack) environmentsStay() {
	s.t.Helper()
	list := func(id string) string {
		return s.run("docker", "exec", id, "bash", "-c", "cd "+environments+" && find . -maxdepth 1 -type d ! -name 'build-*' | sort")
	}
	built, kept := "", ""
	for _, id := range s.containers("worker") {
		if l := list(id); strings.Count(l, "\n") > 1 {
			built, kept = id, l
		}
	}
	if built == "" {
		s.t.Fatal("no worker built an environment")
	}
	s.compose("stop", "index")
	s.compose("restart", "worker")
	for _, id := range s.containers("worker") {
		if id != built {
			s.run("docker", "stop", id)
		}
	}
	s.until("the worker is healthy again", func() bool { return s.inspect(built, "{{.State.Health.Status}}") == "healthy" })
	if d := cmp.Diff(kept, list(built)); d != "" {
		s.t.Errorf("environments after a restart (-before +after):\n%s", d)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	for _, level := range []policy.Isolation{policy.Cell, policy.Task, policy.GVisor} {
		raw := fmt.Sprintf(`{"isolation": %q, "wall": "2m", "packages": ["friendly==1.0"]}`, level)
		res, err := s.api.Run(ctx, job.Spec{Program: job.Program{Python: &job.Python{Code: "import friendly; print(friendly.word)"}}, Policy: json.RawMessage(raw)})
		if err != nil || res.Outcome != job.Succeeded || res.Stdout.Text != "hello\n" {
			s.t.Errorf("%s with the package from before: %+v, %v", level, res, err)
		}
	}
	s.compose("up", "--detach", "--no-build", "--wait", fmt.Sprintf("--wait-timeout=%d", int(patience.Seconds())), fmt.Sprintf("--scale=worker=%d", workers))
}

// walls tries all forbidden operations of a worker's token at the deployed NATS.
func (s *stack) walls() {
	s.t.Helper()
	if *forbidden == "" {
		s.t.Error("-compose.forbidden names no test binary")
		return
	}
	at := s.inspect(s.containers("nats")[0], `{{(index .NetworkSettings.Networks "assay-test_work").IPAddress}}`)
	cmd := exec.Command(*forbidden, "-test.v", "-test.run=^TestForbidden$", "-test.timeout=5m", "-nats.url=nats://"+at+":4222", "-worker.token="+s.env["ASSAY_WORKER_TOKEN"])
	cmd.Dir = filepath.Join(s.root, "pkg", "queue", "jetstream")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestForbidden") {
		s.t.Errorf("TestForbidden: %v\n%s", err, out)
	}
}

// left returns the engine's remaining objects.
func (s *stack) left() map[string][]string {
	s.t.Helper()
	found := map[string][]string{}
	for what, args := range map[string][]string{
		"containers": {"ps", "--all", "--quiet"}, "volumes": {"volume", "ls", "--quiet"}, "networks": {"network", "ls", "--quiet"},
	} {
		found[what] = strings.Fields(s.run("docker", args...))
		slices.Sort(found[what])
	}
	dir := strings.TrimSpace(s.run("docker", "info", "--format", "{{.DockerRootDir}}")) + "/"
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if at := strings.Fields(line)[4]; strings.HasPrefix(at, dir) { // others come and go at any time
			found["mounts"] = append(found["mounts"], at)
		}
	}
	slices.Sort(found["mounts"])
	// The control group in which an engine of the test's own puts everything. With another engine
	// only containers are visible.
	if engine := os.Getenv("ASSAY_ENGINE"); engine != "" {
		groups, _ := filepath.Glob("/sys/fs/cgroup/*/" + filepath.Base(engine) + "/*")
		for _, g := range groups {
			if info, err := os.Stat(g); err == nil && info.IsDir() {
				found["control groups"] = append(found["control groups"], g)
			}
		}
	}
	return found
}
