package policy

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/assay-run/assay/pkg/job"
)

const tight = `{"isolation":"task","enforce":"strict","wall":"10s","cpu":0.5,"cpu_time":"5s","memory":"128Mi",
"processes":8,"disk":"1Mi","files":100,"open_files":32,"stdout":"1Ki","stderr":"2Ki","network":"allow",
"max_calls":1,"artifact_bytes":"1Mi","artifact_files":2}`

func TestCeilingNamesEveryOffendingField(t *testing.T) {
	t.Parallel()
	c, err := ParseCeiling(json.RawMessage(tight))
	if err != nil {
		t.Fatal(err)
	}
	p := parse(t, `{"isolation":"cell","enforce":"report","network":{"mode":"open"},"callbacks":{"max_calls":2}}`)
	err = c.Check(p)
	if !errors.Is(err, job.ErrRefused) {
		t.Fatalf("got %v, want a refusal", err)
	}
	want := []string{
		"policy.isolation: cell is weaker than the required task", "policy.enforce: must be strict",
		"policy.wall: 30s is above the ceiling of 10s", "policy.cpu: 1 is above the ceiling of 0.5",
		"policy.cpu_time: 30s is above the ceiling of 5s", "policy.memory: 256Mi is above the ceiling of 128Mi",
		"policy.processes: 64 is above the ceiling of 8", "policy.disk: 64Mi is above the ceiling of 1Mi",
		"policy.files: 4096 is above the ceiling of 100", "policy.open_files: 256 is above the ceiling of 32",
		"policy.stdout.limit: 64Ki is above the ceiling of 1Ki", "policy.stderr.limit: 64Ki is above the ceiling of 2Ki",
		"policy.network.mode: open is above the ceiling of allow", "policy.callbacks.max_calls: 2 is above the ceiling of 1",
		"policy.artifacts.max_bytes: 16Mi is above the ceiling of 1Mi", "policy.artifacts.max_files: 100 is above the ceiling of 2",
	}
	if got := strings.Split(err.Error(), "; "); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestCallsThatAreNotCounted checks that a policy without a number of calls gets the ceiling's, and that any
// number is valid without a ceiling.
func TestCallsThatAreNotCounted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		callbacks string
		ceiling   Ceiling
		want      int
		asked     string
	}{
		{`{"allow":["f"]}`, Ceiling{}, 0, "f; any number of calls"},
		{`{"allow":["f"]}`, Ceiling{MaxCalls: 7}, 7, "f; 7 calls"},
		{`{"allow":["f"]}`, Ceiling{MaxCalls: 7, Above: Lower}, 7, "f; 7 calls"},
		{`{"allow":["f"],"max_calls":3}`, Ceiling{MaxCalls: 7}, 3, "f; 3 calls"},
		{`{"allow":["f"],"max_calls":3}`, Ceiling{}, 3, "f; 3 calls"},
		{`{"allow":[]}`, Ceiling{MaxCalls: 7}, 0, "none; 0 calls"},
	} {
		p, err := c.ceiling.Apply(parse(t, `{"callbacks":`+c.callbacks+`}`))
		if err != nil || p.Callbacks.MaxCalls != c.want || len(p.Asked) > 0 {
			t.Errorf("%s under %+v: %+v, %v; asked %v", c.callbacks, c.ceiling, p.Callbacks, err, p.Asked)
		}
		if asked := callbacksAsked(&p); asked != c.asked {
			t.Errorf("%s under %+v: %q, want %q", c.callbacks, c.ceiling, asked, c.asked)
		}
	}
}

func TestNoCeilingAllowsEverything(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"", "null", "{}"} {
		c, err := ParseCeiling(json.RawMessage(raw))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check(parse(t, `{"memory":"1Ti","isolation":"cell","network":{"mode":"open"}}`)); err != nil {
			t.Errorf("ceiling %q: %v", raw, err)
		}
	}
}

func TestParseCeilingNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"memry":"1Gi"}`:      "ceiling.memry: unknown field; did you mean memory?",
		`{"memory":"1Ki"}`:     "ceiling.memory: must be 16Mi to 1Ti, not 1Ki",
		`{"wall":"-1s"}`:       "ceiling.wall: must be 1ms",
		`{"isolation":"jail"}`: "ceiling.isolation: must be one of",
		`{"enforce":"x"}`:      "ceiling.enforce: must be strict or report",
		`{"network":"x"}`:      "ceiling.network: must be one of",

		`{"registries":["ghcr.io","http://a.example"]}`: "ceiling.registries[1]: \"http://a.example\": omit the scheme",
		`{"registries":["library"]}`:                    "ceiling.registries[0]: \"library\": must be the beginning of whole names",
		`{"registries":["docker.io/"]}`:                 "ceiling.registries[0]: \"docker.io/\": must be",
		`{"registries":["docker.io/library/python:3"]}`: "ceiling.registries[0]: \"docker.io/library/python:3\": must be",
	} {
		if _, err := ParseCeiling(json.RawMessage(in)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s…", in, err, want)
		}
	}
}

func TestCeilingOfRegistries(t *testing.T) {
	t.Parallel()
	c, err := ParseCeiling(json.RawMessage(`{"above":"clamp","registries":["docker.io/library","ghcr.io","registry.corp:5000/team"]}`))
	if err != nil {
		t.Fatal(err)
	}
	for image, want := range map[string]bool{
		"": true, "python": true, "python:3.12": true, "assay.local/ours/python:1": true,
		"library/python:3": true, "docker.io/python": true, "index.docker.io/library/python": true, "ghcr.io/a/b@sha256:00": true, "registry.corp:5000/team/x:1": true,
		"someone/python:3": false, "docker.io/someone/python": false, "docker.io/libraryx/python": false, "ghcr.io.evil.example/a": false, "GHCR.io/a": false,
		"registry.corp/team/x": false, "registry.corp:5000/teams/x": false, "localhost/a": false, "10.0.0.1:5000/x": false, "assay.local.evil.example/x": false,
	} {
		err := c.CheckImage(image)
		if (err == nil) != want || !want && (!errors.Is(err, job.ErrRefused) || !strings.HasPrefix(err.Error(), "image: ")) {
			t.Errorf("%q: %v, want allowed %v", image, err, want)
		}
		if err := (Ceiling{}).CheckImage(image); err != nil {
			t.Errorf("%q without a ceiling: %v", image, err)
		}
	}
	local, err := ParseCeiling(json.RawMessage(`{"registries":["assay.local"]}`))
	if err != nil || local.CheckImage("python") != nil || local.CheckImage("ghcr.io/a") == nil {
		t.Errorf("only what workers have: %v", err)
	}
}

// TestClampedPoliciesPass checks that a clamped policy is allowed and valid, and that clamping it again
// changes nothing.
func TestClampedPoliciesPass(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := Ceiling{
			Isolation: rapid.SampledFrom(append([]Isolation{""}, Isolations...)).Draw(t, "floor"),
			Enforce:   rapid.SampledFrom([]Enforce{"", Strict, Report}).Draw(t, "ceiling enforce"),
			Network:   rapid.SampledFrom(append([]NetworkMode{""}, networkModes...)).Draw(t, "network ceiling"),
			Memory:    job.Size(rapid.Int64Range(0, 1<<40).Filter(func(n int64) bool { return n == 0 || n >= 16<<20 }).Draw(t, "memory ceiling")),
			Processes: rapid.IntRange(0, 32768).Draw(t, "processes ceiling"),
			CPU:       rapid.SampledFrom([]float64{0, 0.05, 1, 256}).Draw(t, "cpu ceiling"),
		}
		p := Default()
		p.Isolation = rapid.SampledFrom(Isolations).Draw(t, "isolation")
		p.Enforce = rapid.SampledFrom([]Enforce{Strict, Report}).Draw(t, "enforce")
		p.Memory = job.Size(rapid.Int64Range(16<<20, 1<<40).Draw(t, "memory"))
		p.Processes = rapid.IntRange(1, 32768).Draw(t, "processes")
		p.CPU = rapid.Float64Range(0.05, 256).Draw(t, "cpu")
		if p.Network.Mode = rapid.SampledFrom(networkModes).Draw(t, "mode"); p.Network.Mode == NetworkAllow {
			p.Network.Allow = []string{"pypi.org:443"}
		}
		low := c.Clamp(p)
		if err := c.Check(low); err != nil {
			t.Fatalf("clamped but refused: %v", err)
		}
		if err := low.Validate(); err != nil {
			t.Fatalf("clamped but invalid: %v", err)
		}
		if c.Check(p) == nil && low.Memory != p.Memory {
			t.Fatalf("clamp lowered what was allowed")
		}
	})
}

// TestCeilingOfWhatIsSent checks the settings that bound tenants and not policies: they are read, and
// negative values are rejected.
func TestCeilingOfWhatIsSent(t *testing.T) {
	t.Parallel()
	c, err := ParseCeiling([]byte(`{"batches":10,"classes":20,"requests_per_second":0.5,"bytes_per_second":"10Mi"}`))
	if err != nil || c.Batches != 10 || c.Classes != 20 || c.Requests != 0.5 || c.Bytes != 10*job.MiB {
		t.Errorf("%+v, %v", c, err)
	}
	for _, field := range []string{"sessions", "queued", "batches", "classes", "requests_per_second"} {
		_, err := ParseCeiling([]byte(`{"` + field + `":-1}`))
		var f *job.FieldError
		if !errors.As(err, &f) || f.Field != "ceiling."+field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
