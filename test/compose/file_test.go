package compose

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/oasdiff/yaml"

	"github.com/assay-run/assay/internal/testenv"
)

// service is a service of the compose file, with the fields that are checked.
type service struct {
	Image       string
	Command     any
	Ports       []string
	Volumes     []string
	Networks    []string
	Environment map[string]any
	Privileged  bool
	User        string
	ReadOnly    bool     `json:"read_only"`
	CapDrop     []string `json:"cap_drop"`
	Restart     string
	Healthcheck struct{ Test []string }
	Deploy      struct{ Replicas int }
}

func services(t *testing.T) map[string]service {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Services map[string]service }
	if _, err := yaml.Unmarshal(raw, &file, yaml.DecodeOpts{}); err != nil {
		t.Fatal(err)
	}
	if len(file.Services) < 10 {
		t.Fatalf("only %d services", len(file.Services))
	}
	return file.Services
}

// Each running service has a health check, restarts, publishes ports only to this machine, has a
// pinned version, and has only the privileges that it needs. Workers cannot reach Postgres.
func TestServices(t *testing.T) {
	all := services(t)
	for name, s := range all {
		once := s.Restart == "no"
		if !once && len(s.Healthcheck.Test) < 2 {
			t.Errorf("%s has no health check", name)
		}
		if !once && s.Restart != "unless-stopped" {
			t.Errorf("%s is started again: %q", name, s.Restart)
		}
		if ours := strings.Contains(s.Image, "-assay-"); !ours && !regexp.MustCompile(`^\$\{[A-Z_]+:-[a-z/-]+:v?[0-9][^:]*\}$`).MatchString(s.Image) {
			t.Errorf("%s is the image %s", name, s.Image)
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") && !strings.HasPrefix(p, "${ASSAY_BIND:-127.0.0.1}:") {
				t.Errorf("%s is published as %s", name, p)
			}
		}
		if s.Privileged != (name == "worker") || len(s.CapDrop) == 0 && name != "worker" && name != "postgres" {
			t.Errorf("%s: privileged %v, without %v", name, s.Privileged, s.CapDrop)
		}
		for variable, value := range s.Environment {
			if value == "${ASSAY_OIDC_CLIENT_SECRET:-}" { // only set if people sign in at an issuer with a secret
				continue
			}
			if text, ok := value.(string); ok && regexp.MustCompile(`PASSWORD|SECRET|TOKEN|KEY$`).MatchString(variable) && !strings.Contains(text, ":?") {
				t.Errorf("%s: %s has a default: %s", name, variable, text)
			}
		}
	}
	if d := all["dispatcher"]; d.User != "" || !d.ReadOnly || d.Deploy.Replicas != 2 {
		t.Errorf("dispatchers: user %q, read-only %v, %d of them", d.User, d.ReadOnly, d.Deploy.Replicas)
	}
	for _, n := range all["worker"].Networks {
		for _, part := range []string{"postgres", "dispatcher", "api"} {
			for _, other := range all[part].Networks {
				if n == other {
					t.Errorf("workers and %s are on the network %s", part, n)
				}
			}
		}
	}
}

// Workers of the compose file share one token, so they are one witness together. With two witnesses
// required, none would fetch an environment.
func TestWorkersFetchEnvironments(t *testing.T) {
	const variable, want = "ASSAY_ENVIRONMENT_WITNESSES", "${ASSAY_ENVIRONMENT_WITNESSES:-1}"
	if have := services(t)["dispatcher"].Environment[variable]; have != want {
		t.Errorf("%s is %v, want %s", variable, have, want)
	}
}

// Each file that the compose file mounts exists.
func TestMountedFiles(t *testing.T) {
	mounted := 0
	for name, s := range services(t) {
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if !strings.HasPrefix(from, "./") {
				continue
			}
			mounted++
			if _, err := os.Stat(filepath.Join(testenv.RepoRoot(t), from)); err != nil {
				t.Errorf("%s mounts %v", name, err)
			}
		}
	}
	if mounted < 5 {
		t.Errorf("%d files are mounted", mounted)
	}
}

// `up --build` builds programs from packages that are sent to the engine.
func TestBuildContext(t *testing.T) {
	t.Chdir(testenv.RepoRoot(t))
	sent, err := os.ReadFile(".dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/assay-run/assay/"
	packages, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./cmd/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	ours := map[string]bool{}
	for line := range strings.Lines(string(packages)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), module); ok {
			top, _, _ := strings.Cut(path, "/")
			ours[top] = true
		}
	}
	if len(ours) < 5 {
		t.Fatalf("the programs are built of %v", ours)
	}
	for top := range ours {
		if !strings.Contains(string(sent), "\n!"+top+"\n") {
			t.Errorf(".dockerignore keeps %s back, of which the programs are built", top)
		}
	}
}
