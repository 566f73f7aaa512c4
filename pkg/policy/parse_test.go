package policy

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
)

// documented is the policy of the contract.
const documented = `{
  "isolation": "cell", "enforce": "strict",
  "wall": "30s", "cpu": 1, "cpu_time": "30s", "memory": "256Mi", "processes": 64, "subprocesses": true,
  "disk": "64Mi", "files": 4096, "open_files": 256,
  "stdout": {"limit": "64Ki", "on_exceed": "truncate"}, "stderr": {"limit": "64Ki", "on_exceed": "truncate"},
  "read": [], "write": ["/workspace", "/tmp"],
  "network": {"mode": "none", "max_bytes": "1Gi"},
  "env": {"set": {}, "secrets": {}},
  "imports": {"allow": [], "deny": []}, "packages": [], "syscalls": "default",
  "callbacks": {"allow": [], "max_calls": 0},
  "artifacts": {"paths": [], "max_bytes": "16Mi", "max_files": 100}
}`

func TestDefaultIsTheDocumentedPolicy(t *testing.T) {
	t.Parallel()
	for _, in := range []string{documented, "", "null", "{}", `{"write":null,"env":{"set":null},"stdout":null,"memory":null}`} {
		got, err := Parse(json.RawMessage(in))
		if err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		if diff := cmp.Diff(Default(), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", in, diff)
		}
	}
}

func TestParseOverlays(t *testing.T) {
	t.Parallel()
	base := Default()
	base.Env.Set["LANG"] = "C"
	got, err := ParseOver(base, json.RawMessage(`{"wall":"2s","stdout":{"limit":"1Ki"},"write":["/out"],"env":{"set":{"A":"1"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Wall = job.Duration(2 * time.Second)
	want.Stdout.Limit = job.KiB
	want.Write = []string{"/out"}
	want.Env.Set = map[string]string{"A": "1", "LANG": "C"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
	if len(base.Env.Set) != 1 || base.Write[0] != "/workspace" {
		t.Errorf("parsing changed the base: %v %v", base.Env.Set, base.Write)
	}
}

func TestMarshalIsComplete(t *testing.T) {
	t.Parallel()
	p := Default()
	p.Write, p.Env.Set = nil, nil // none, not the default
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	other := Default()
	other.Memory, other.Write, other.Syscalls = job.GiB, []string{"/elsewhere"}, "strict"
	got, err := ParseOver(other, raw)
	if err != nil {
		t.Fatal(err)
	}
	p.Write, p.Env.Set = []string{}, map[string]string{}
	if diff := cmp.Diff(p, got); diff != "" {
		t.Errorf("round trip over other defaults (-want +got):\n%s", diff)
	}
}

func TestName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{`"offline"`: "offline", `{}`: "", ``: "", `null`: ""} {
		if got, ok := Name(json.RawMessage(in)); got != want || ok != (want != "") {
			t.Errorf("Name(%s) = %q, %v", in, got, ok)
		}
	}
}

func TestParseNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`"offline"`:                      "policy: must be an object, not a string",
		`[]`:                             "policy: must be an object, not a list",
		`{"wal":"1s"}`:                   "policy.wal: unknown field; did you mean wall?",
		`{"Wall":"1s"}`:                  "policy.Wall: unknown field; did you mean wall?",
		`{"wall":"1s","wall":"2s"}`:      "policy.wall: is given twice",
		`{"wall":1}`:                     `policy.wall: duration 1 must be a string with a unit`,
		`{"wall":"1d"}`:                  `policy.wall: duration "1d" must be numbers with units, such as "1.5s" or "1h30m"; units are ms, s, m and h`,
		`{"timeout":"1s"}`:               "policy.timeout: unknown field; did you mean wall?",
		`{"timout":"1s"}`:                "policy.timout: unknown field; did you mean wall?",
		`{"time_limit":"1s"}`:            "policy.time_limit: unknown field; did you mean wall?",
		`{"mem":"1Gi"}`:                  "policy.mem: unknown field; did you mean memory?",
		`{"memory_limit":"1Gi"}`:         "policy.memory_limit: unknown field; did you mean memory?",
		`{"gpus":1}`:                     "policy.gpus: unknown field; there are ",
		`{"cpus":1}`:                     "policy.cpus: unknown field; did you mean cpu?",
		`{"network":true}`:               `policy.network: must be an object such as {"mode": "open"}, not true or false`,
		`{"network":["pypi.org"]}`:       `policy.network: must be an object such as {"mode": "open"}, not a list`,
		`{"wall":"0s"}`:                  "policy.wall: must be 1ms to 24h0m0s, not 0s",
		`{"wall":"25h"}`:                 "policy.wall: must be 1ms to 24h0m0s, not 25h0m0s",
		`{"wall":"-1s"}`:                 "policy.wall: must be 1ms",
		`{"cpu_time":"0s"}`:              "policy.cpu_time: must be 1ms",
		`{"cpu":0}`:                      "policy.cpu: must be 0.05 to 256, not 0",
		`{"cpu":1e9}`:                    "policy.cpu: must be 0.05 to 256, not 1e+09",
		`{"cpu":1e999}`:                  "policy.cpu: must be a number of 64 bits",
		`{"cpu":"1"}`:                    "policy.cpu: must be a number, not a string",
		`{"memory":"1Mi"}`:               "policy.memory: must be 16Mi to 1Ti, not 1Mi",
		`{"memory":"9Ti"}`:               "policy.memory: must be 16Mi to 1Ti, not 9Ti",
		`{"memory":"lots"}`:              `policy.memory: size "lots" is not a quantity`,
		`{"memory":"99999999999Pi"}`:     `policy.memory: size "99999999999Pi" is out of range: sizes are below 8Ei`,
		`{"memory":"1Ei"}`:               `policy.memory: must be 16Mi to 1Ti, not 1Ei`,
		`{"wall":"99999999999999h"}`:     `policy.wall: duration "99999999999999h" is out of range`,
		`{"memory":-1}`:                  `policy.memory: size "-1" is not a quantity`,
		`{"processes":0}`:                "policy.processes: must be 1 to 32768, not 0",
		`{"processes":1.5}`:              "policy.processes: must be a whole number",
		`{"subprocesses":"no"}`:          "policy.subprocesses: must be true or false, not a string",
		`{"disk":"0"}`:                   "policy.disk: must be 64Ki to 1Ti, not 0",
		`{"files":0}`:                    "policy.files: must be 16",
		`{"stack":"1Ki"}`:                "policy.stack: must be 1Mi to 64Gi",
		`{"stack":"1Ti","memory":"1Ti"}`: "policy.stack: must be 1Mi to 64Gi",
		`{"stack":"512Mi"}`:              "policy.stack: 512Mi is above policy.memory, 256Mi",
		`{"stack":"unlimited"}`:          "policy.stack",
		`{"open_files":1}`:               "policy.open_files: must be 16",
		`{"stdout":{"limit":"1Gi"}}`:     "policy.stdout.limit: must be 0 to 16Mi, not 1Gi",
		`{"stderr":{"on_exceed":"x"}}`:   `policy.stderr.on_exceed: must be one of [truncate kill], not "x"`,
		`{"isolation":"chroot"}`:         `policy.isolation: must be one of [cell task gvisor vm], not "chroot"`,
		`{"enforce":"maybe"}`:            `policy.enforce: must be one of [strict report]`,
		`{"syscalls":"none"}`:            `policy.syscalls: must be one of [default strict]`,
		`{"write":["tmp"]}`:              `policy.write[0]: "tmp" must be absolute`,
		`{"write":["/tmp","/"]}`:         `policy.write[1]: "/" must not be the root directory`,
		`{"write":["/proc/self"]}`:       `policy.write[0]: "/proc/self" belongs to the kernel`,
		`{"write":["/run"]}`:             `policy.write[0]: "/run" belongs to the sandbox itself`,
		`{"read":["/run/assay"]}`:        `policy.read[0]: "/run/assay" belongs to the sandbox itself`,
		`{"write":["/run/assay/slot"]}`:  `policy.write[0]: "/run/assay/slot" belongs to the sandbox itself`,
		`{"write":["/` + strings.Repeat("n", 256) + `"]}`:                           `policy.write[0]: "/` + strings.Repeat("n", 79) + `" has a name of 256 bytes; at most 255`,
		`{"read":["/a/` + strings.Repeat("b", 256) + `"]}`:                          `policy.read[0]: "/a/` + strings.Repeat("b", 77) + `" has a name of 256 bytes; at most 255`,
		`{"write":["/dev"]}`:                                                        `policy.write[0]: "/dev" belongs to the kernel`,
		`{"write":["/tmp/../etc"]}`:                                                 `policy.write[0]: "/tmp/../etc" must be plain`,
		`{"write":["/a","/a/b"]}`:                                                   `policy.write[1]: "/a/b" lies beneath /a, which is writable already`,
		`{"write":["/a","/a"]}`:                                                     `policy.write[0]: "/a" lies beneath /a`,
		`{"write":["/a\u0000"]}`:                                                    `policy.write[0]: "/a\x00" must be UTF-8 without control characters`,
		`{"read":["data"]}`:                                                         `policy.read[0]: "data" must be absolute`,
		`{"network":"none"}`:                                                        `policy.network: must be an object such as {"mode": "open"}, not a string`,
		`{"network":{"max_bytes":"0"}}`:                                             "policy.network.max_bytes: must be 1Ki to 1Ti, not 0",
		`{"network":{"mode":"some"}}`:                                               "policy.network.mode: must be one of [none allow open]",
		`{"network":{"mode":"allow"}}`:                                              "policy.network.allow: must list at least one",
		`{"network":{"allow":["a:1"]}}`:                                             `policy.network.allow: needs "mode": "allow"`,
		`{"network":{"mode":"allow","allow":["pypi.org"]}}`:                         `policy.network.allow[0]: "pypi.org" must be host:port`,
		`{"network":{"mode":"allow","allow":["a:1","b:0"]}}`:                        `policy.network.allow[1]: "b:0" has a bad port`,
		`{"network":{"mode":"allow","allow":["*.*.org:443"]}}`:                      `policy.network.allow[0]: "*.*.org:443" is not a host name`,
		`{"env":{"set":{"A=B":"1"}}}`:                                               `policy.env.set: "A=B" must be a name`,
		`{"env":{"set":{"A":"\u0000"}}}`:                                            `policy.env.set.A: must be UTF-8 without NUL bytes`,
		`{"env":{"set":{"A":1}}}`:                                                   `policy.env.set.A: must be a string, not a number`,
		`{"env":{"set":{"A":"1"},"secrets":{"A":"x"}}}`:                             `policy.env.secrets.A: is also in policy.env.set; give each variable once`,
		`{"env":{"secrets":{"A":""}}}`:                                              `policy.env.secrets.A: the name of the secret must not be empty`,
		`{"env":{"set":{"A":"` + strings.Repeat("x", 128<<10) + `"}}}`:              "policy.env.set: is 131075 bytes; at most 128Ki",
		`{"imports":{"deny":["os-path"]}}`:                                          `policy.imports.deny[0]: "os-path" must be a python module such as os.path, or "*" for every module outside imports.allow`,
		`{"imports":{"deny":["os.*"]}}`:                                             `policy.imports.deny[0]: "os.*" must be a python module`,
		`{"imports":{"allow":["*"]}}`:                                               `policy.imports.allow[0]: "*" is for deny; without imports.allow every module is allowed`,
		`{"callbacks":{"max_calls":-1}}`:                                            `policy.callbacks.max_calls: must be 0`,
		`{"callbacks":{"allow":["a b"]}}`:                                           `policy.callbacks.allow[0]: "a b" must be a name`,
		`{"artifacts":{"paths":["*.png"]}}`:                                         `policy.artifacts.paths[0]: "*.png" must be absolute`,
		`{"artifacts":{"paths":["/a/[x"]}}`:                                         `policy.artifacts.paths[0]: "/a/[x" is not a glob`,
		`{"artifacts":{"paths":["/w/**/a/**/b/**"]}}`:                               `policy.artifacts.paths[0]: "/w/**/a/**/b/**" has ** 3 times; at most 2 times`,
		`{"artifacts":{"paths":["/*/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a"]}}`:            `policy.artifacts.paths[0]: "/*/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a" has 17 parts; at most 16`,
		`{"artifacts":{"paths":["` + strings.Repeat("/a", 65) + `"]}}`:              `policy.artifacts.paths[0]: "` + strings.Repeat("/a", 40) + `" has 65 parts; at most 64`,
		`{"artifacts":{"paths":["` + strings.Repeat(`/w/*.txt","`, 32) + `/w/?"]}}`: `policy.artifacts.paths[32]: "/w/?" exceeds the limit of 32 patterns with wildcards`,
		`{"artifacts":{"max_files":1000000}}`:                                       `policy.artifacts.max_files: must be 0 to 100000`,
		`{"packages":["` + strings.Repeat(`a","`, 300) + `b"]}`:                     "policy.packages: has 301 entries; at most 256",
	} {
		_, err := Parse(json.RawMessage(in))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.100s\n got: %v\nwant: %s…", in, err, want)
		}
		if f := new(job.FieldError); err != nil && !errors.As(err, &f) {
			t.Errorf("%.100s: %T is not a FieldError", in, err)
		}
	}
}

func TestParseAccepts(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		`{"network":{"mode":"allow","allow":["pypi.org:443","*.example.org:443","192.0.2.7:5432","10.0.0.0/8:443","[::1]:80"]}}`,
		`{"write":[]}`, `{"write":["/tmp","/tmpfiles"]}`, `{"cpu":0.5}`, `{"memory":268435456}`, `{"memory":"1.5G"}`,
		`{"artifacts":{"paths":["/workspace/out/**/*.png"]}}`, `{"artifacts":{"paths":["/w/**/**/**/a/**/**/b"]}}`, `{"artifacts":{"paths":["` + strings.Repeat(`/w/a","`, 200) + `/w/b"]}}`,
		`{"imports":{"allow":["os.path"]}}`, `{"imports":{"deny":["*"],"allow":["math"]}}`, `{"stdout":{"limit":0}}`,
	} {
		if _, err := Parse(json.RawMessage(in)); err != nil {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func TestValidateRefusesNaN(t *testing.T) {
	t.Parallel()
	p := Default()
	p.CPU = math.NaN()
	if err := p.Validate(); err == nil {
		t.Error("a policy of NaN cores was accepted")
	}
}

func FuzzPolicy(f *testing.F) {
	for _, s := range []string{documented, `{}`, `"offline"`, `{"wall":"1e3s"}`, `{"memory":"1.5Gi","cpu":0.25}`,
		`{"network":{"mode":"allow","allow":["[::1]:80"]}}`, `{"env":{"set":{"A":"\ud83d\ude00"}}}`, `{"write":["/a/../b"]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := Parse(raw)
		if err != nil {
			if !errors.Is(err, job.ErrInvalid) {
				t.Fatalf("%v is not an ErrInvalid", err)
			}
			return
		}
		whole, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(whole)
		if err != nil {
			t.Fatalf("resolved policy does not parse: %v\n%s", err, whole)
		}
		if diff := cmp.Diff(p, again); diff != "" {
			t.Fatalf("resolving twice differs:\n%s", diff)
		}
		if _, err := p.Plan(Host{Isolations: []Isolation{Task}}); err != nil && !errors.Is(err, job.ErrRefused) {
			t.Fatalf("plan: %v", err)
		}
	})
}
