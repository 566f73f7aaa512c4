package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
)

// realFleet has workers with real sandboxes, over a containerd of its own below dir.
func realFleet(t *testing.T, dir string, workers int, env ...string) *storm {
	t.Helper()
	return realShape(t, dir, shape{workers: workers, env: env})
}

// realShape is realFleet of any shape.
func realShape(t *testing.T, dir string, of shape) *storm {
	t.Helper()
	testenv.Needs(t, "containerd, and root")
	archive := filepath.Join(testenv.RepoRoot(t), ".cache", "images", "python.tar")
	if _, err := os.Stat(archive); err != nil {
		t.Fatalf("the default image is not built: %v; run: make image", err)
	}
	s := &storm{}
	var err error
	if s.containerd, err = dev.StartContainerd(t.Context(), dev.ContainerdConfig{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.containerd.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	of.runtime = "containerd"
	of.env = append(of.env,
		"ASSAY_CONTAINERD_ADDRESS="+s.containerd.Address(), "ASSAY_IMAGE_ARCHIVES="+archive, "ASSAY_CONTAINERD_NAMESPACE=chaos-"+instance(dir))
	s.fleet = newFleet(t, of)
	return s
}

// plainDir returns a directory without a comma in its name. Tests' directories have commas, which
// separate the lists of overlay file systems.
func plainDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "chaos-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// program returns a job that really runs.
func program(isolation, code string, policy ...string) job.Spec {
	fields := append([]string{fmt.Sprintf("%q: %q", "isolation", isolation)}, policy...)
	return job.Spec{
		Image: "python", Policy: json.RawMessage("{" + strings.Join(fields, ", ") + "}"),
		Program: job.Program{Python: &job.Python{Code: code}},
	}
}

// Misbehaviour of user code gets its own outcome and affects no other job: at both levels, all at
// once, on one worker.
func hostileCode(t *testing.T) {
	s := realFleet(t, plainDir(t), 1)
	type attack struct {
		spec job.Spec
		want job.Outcome
	}
	var attacks []attack
	for _, level := range []string{"cell", "task"} {
		for _, a := range []struct {
			code, policy string
			want         job.Outcome
		}{
			{"while True: pass", `"wall": "1s"`, job.TimedOut},
			{"import os\nwhile True: os.fork()", `"wall": "5s", "processes": 20`, job.ProcessLimit},
			{"with open('/workspace/f', 'wb') as f:\n    while True: f.write(bytes(1 << 20))", `"disk": "4Mi"`, job.DiskLimit},
			{"import os, time\nos.close(1)\ntime.sleep(1)", `"wall": "20s"`, job.Succeeded},
			{"import subprocess\nsubprocess.Popen(['sleep', '1000'])", `"wall": "20s"`, job.Succeeded},
			{"import signal, time\nfor n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(n, signal.SIG_IGN)\ntime.sleep(1000)", `"wall": "1s"`, job.TimedOut},
			{"x = b'x' * (1 << 30)", `"memory": "64Mi"`, job.OutOfMemory},
			{"import subprocess\nsubprocess.Popen(['setsid', 'sh', '-c', 'trap \"\" TERM; sleep 1000'])", `"wall": "20s"`, job.Succeeded},
			{"import sys\nfor _ in range(1024): sys.stdout.write('x' * (1 << 20))", `"wall": "1m"`, job.Succeeded},
		} {
			attacks = append(attacks, attack{program(level, a.code, a.policy), a.want})
		}
	}
	ids := make([]job.ID, len(attacks))
	for i, a := range attacks {
		accepted, err := s.api.Submit(t.Context(), a.spec)
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = accepted.ID
	}
	for i, a := range attacks {
		r, err := s.api.Result(t.Context(), s.ended(ids[i]))
		if err != nil || r.Outcome != a.want && !(a.want == job.ProcessLimit && r.Outcome == job.TimedOut) || len(r.Attempts) != 1 {
			t.Errorf("%s: %+v, %v; want %s", a.spec.Program.Python.Code, r, err, a.want)
		}
	}
	innocent, err := s.api.Run(t.Context(), program("cell", "print('fine')"))
	if err != nil || innocent.Stdout.Text != "fine\n" {
		t.Errorf("after them: %+v, %v", innocent, err)
	}
	s.check()
	for _, what := range s.end() {
		t.Errorf("left behind: %s", what)
	}
}

func (s *storm) ended(id job.ID) job.ID {
	s.t.Helper()
	within(s.t, 3*time.Minute, "job "+string(id)+" ends", func() bool { return s.row(id).State.Terminal() })
	return id
}

// containerd restarts, or its shim dies, under a running program. That is an infrastructure
// failure, which is retried, and leaves nothing behind.
func engineFails(t *testing.T) {
	for _, level := range []string{"task", "cell"} {
		for name, fail := range map[string]func(s *storm){
			"containerd killed": func(s *storm) { s.restartContainerd() },
			"shim killed": func(s *storm) {
				if s.shims(unix.SIGKILL) == 0 {
					t.Error("no shim was found")
				}
			},
		} {
			t.Run(level+" "+name, func(t *testing.T) {
				s := realFleet(t, plainDir(t), 1)
				accepted, err := s.api.Submit(t.Context(), program(level, "import time\ntime.sleep(5)\nprint('done')", `"wall": "1m"`))
				if err != nil {
					t.Fatal(err)
				}
				s.until(accepted.ID, job.Running)
				eventually(t, "there is a sandbox", func() bool { return s.shims(0) > 0 })
				<-time.After(time.Second) // by now it is in its program; if not, that is a case, too
				fail(s)
				r, err := s.api.Result(t.Context(), s.ended(accepted.ID))
				if err != nil || r.Outcome != job.Succeeded || r.Stdout.Text != "done\n" || s.row(accepted.ID).Tries != 1 {
					t.Errorf("%+v, %v", r, err)
				}
				s.check()
				for _, what := range s.end() {
					t.Errorf("left behind: %s", what)
				}
			})
		}
	}
}

// shims signals every shim of the fleet's containerd.
func (s *storm) shims(sig unix.Signal) (n int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		raw, _ := os.ReadFile(file)
		var pid int
		if line := string(raw); strings.Contains(line, "containerd-shim-") && strings.Contains(line, s.containerd.Address()) {
			if _, err := fmt.Sscanf(file, "/proc/%d/cmdline", &pid); err == nil && unix.Kill(pid, sig) == nil {
				n++
			}
		}
	}
	return n
}

// An image that does not exist is the user's mistake and reported at once. An image that cannot be
// read or pulled is an infrastructure failure: it is retried, and delays no other job.
func imagesFail(t *testing.T) {
	hang := make(chan struct{})
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "/slow/"):
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		case strings.Contains(r.URL.Path, "/corrupt/"):
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			w.Header().Set("Docker-Content-Digest", "sha256:"+strings.Repeat("0", 64))
			fmt.Fprint(w, `{"schemaVersion": 2, "layers": [`)
		case r.URL.Path == "/v2/":
			w.WriteHeader(http.StatusOK)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "there is none"}]}`)
		}
	}))
	t.Cleanup(registry.Close)
	t.Cleanup(func() { close(hang) })
	host := strings.TrimPrefix(registry.URL, "http://")
	s := realFleet(t, plainDir(t), 1, "ASSAY_INFRA_BUDGET=2", "ASSAY_IMAGE_REGISTRIES="+registry.URL)
	of := func(image string) job.ID {
		spec := program("cell", "1")
		spec.Image = image
		accepted, err := s.api.Submit(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		return accepted.ID
	}
	slow, corrupt, missing := of(host+"/slow/image:1"), of(host+"/corrupt/image:1"), of(host+"/missing/image:1")
	r, err := s.api.Result(t.Context(), s.ended(missing))
	if err != nil || r.Outcome != job.SetupError || len(r.Attempts) != 1 || !strings.Contains(r.Message, "missing/image") {
		t.Errorf("missing: %+v, %v", r, err)
	}
	for range 5 {
		if r, err := s.api.Run(t.Context(), program("cell", "print(1)")); err != nil || r.Outcome != job.Succeeded {
			t.Fatalf("beside them: %+v, %v", r, err)
		}
	}
	r, err = s.api.Result(t.Context(), s.ended(corrupt))
	if err != nil || r.Outcome != job.Lost || len(r.Attempts) < 2 {
		t.Errorf("corrupt: %+v, %v", r, err)
	}
	if s.row(slow).State.Terminal() && s.row(slow).Outcome != string(job.Lost) {
		t.Errorf("slow: %+v", s.row(slow))
	}
	if _, err := s.api.Cancel(t.Context(), slow); err != nil {
		t.Error(err)
	}
	s.ended(slow)
	s.check()
}
