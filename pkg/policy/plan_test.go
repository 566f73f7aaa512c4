package policy

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
)

var (
	cellHost = Host{Isolations: []Isolation{Cell, Task}, Cores: 2, Memory: 4 * job.GiB}
	taskHost = Host{Isolations: []Isolation{Task}, Cores: 2, Memory: 4 * job.GiB}
)

func parse(t testing.TB, raw string) Policy {
	t.Helper()
	p, err := Parse(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Every field of a policy must have a row, or it would be decoration.
func TestTableCoversThePolicy(t *testing.T) {
	t.Parallel()
	var want []string
	for f := range fieldsOf(reflect.TypeFor[Policy]()) {
		switch f {
		case "enforce": // has the remedy for the others
		case "asked,omitempty": // names the others
		case "-": // MainStack is what stack comes to
		case "stack,omitempty":
			want = append(want, "stack")
		case "restrict_helpers,omitempty": // names the programs of the others
		case "env":
			want = append(want, "env.set", "env.secrets")
		default:
			want = append(want, f)
		}
	}
	var got []string
	for _, row := range Explain(Default(), taskHost, UseAny) {
		got = append(got, row.Capability)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("capabilities of the report (-fields of the policy +rows):\n%s", diff)
	}
}

func fieldsOf(t reflect.Type) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i).Tag.Get("json")) {
				return
			}
		}
	}
}

func TestPlanOfTheDefaults(t *testing.T) {
	t.Parallel()
	for _, isolation := range []Isolation{Cell, Task} {
		t.Run(string(isolation), func(t *testing.T) { planOfTheDefaults(t, isolation) })
	}
}

func planOfTheDefaults(t *testing.T, isolation Isolation) {
	t.Parallel()
	p := Default()
	p.Isolation = isolation
	plan, err := p.Plan(cellHost)
	if err != nil {
		t.Fatal(err)
	}
	levels := map[string]job.Level{}
	for _, row := range plan.Enforcement {
		levels[row.Capability] = row.Level
		if row.Requested == "" || row.Applied != row.Requested || row.Mechanism == "" {
			t.Errorf("row %+v", row)
		}
	}
	want := map[string]job.Level{
		"isolation": "kernel", "wall": "runtime", "cpu": "kernel", "cpu_time": "runtime", "memory": "kernel",
		"processes": "kernel", "subprocesses": "none", "disk": "kernel", "files": "kernel", "stack": "kernel", "open_files": "kernel",
		"stdout": "runtime", "stderr": "runtime", "read": "kernel", "write": "kernel", "network": "kernel",
		"env.set": "runtime", "env.secrets": "none", "imports": "none", "packages": "none", "syscalls": "kernel",
		"callbacks": "none", "artifacts": "none",
	}
	if diff := cmp.Diff(want, levels); diff != "" {
		t.Errorf("levels (-want +got):\n%s", diff)
	}
	want4 := job.Enforcement{Capability: "memory", Requested: "256Mi", Applied: "256Mi", Mechanism: "cgroup memory", Level: "kernel"}
	if plan.Enforcement[4] != want4 {
		t.Errorf("memory: got %+v, want %+v", plan.Enforcement[4], want4)
	}
}

// unenforced is what can be asked for and is not enforced on a host that lacks
// it.
var unenforced = []struct{ capability, policy, asked, applied string }{
	{"callbacks", `"callbacks":{"allow":["llm_query"],"max_calls":3}`, "llm_query; 3 calls", "none"},
}

// lacking is a host that cannot pass calls of host functions on.
func lacking() Host {
	h := taskHost
	h.Unenforced = map[string]string{"callbacks": "no line to the dispatchers"}
	return h
}

func TestStrictRefusesWhatIsNotEnforced(t *testing.T) {
	t.Parallel()
	for _, c := range unenforced {
		_, err := parse(t, "{"+c.policy+"}").Plan(lacking())
		r := new(Refusal)
		if !errors.As(err, &r) || !errors.Is(err, job.ErrRefused) {
			t.Errorf("%s: got %v, want a refusal", c.policy, err)
			continue
		}
		if len(r.Fields) != 1 || r.Fields[0].Field != "policy."+c.capability {
			t.Errorf("%s: refused for %v, want policy.%s alone", c.policy, err, c.capability)
		}
	}
}

func TestReportSaysWhatIsNotEnforced(t *testing.T) {
	t.Parallel()
	for _, c := range unenforced {
		plan, err := parse(t, `{"enforce":"report",`+c.policy+"}").Plan(lacking())
		if err != nil {
			t.Errorf("%s: %v", c.policy, err)
			continue
		}
		i := slices.IndexFunc(plan.Enforcement, func(r job.Enforcement) bool { return r.Capability == c.capability })
		want := job.Enforcement{Capability: c.capability, Requested: c.asked, Applied: c.applied, Mechanism: "not enforced on this host: no line to the dispatchers", Level: "none"}
		if got := plan.Enforcement[i]; got != want {
			t.Errorf("%s:\n got %+v\nwant %+v", c.policy, got, want)
		}
	}
}

// Both are the kernel's to enforce wherever jobs run.
func TestSystemCallsAreEnforced(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"cell", "task"} {
		plan, err := parse(t, `{"subprocesses":false,"syscalls":"strict","isolation":"`+isolation+`"}`).Plan(cellHost)
		if err != nil {
			t.Fatal(err)
		}
		applied := map[string]string{}
		for _, row := range plan.Enforcement {
			if row.Level == job.LevelKernel {
				applied[row.Capability] = row.Applied
			}
		}
		if applied["subprocesses"] != "forbidden" || applied["syscalls"] != "strict" {
			t.Errorf("%s: %v", isolation, applied)
		}
	}
}

func TestStrictNamesEveryField(t *testing.T) {
	t.Parallel()
	h := taskHost
	h.Unenforced = map[string]string{"cpu": "no controller", "memory": "no controller", "callbacks": "no line"}
	_, err := parse(t, `{"callbacks":{"allow":["llm_query"],"max_calls":3}}`).Plan(h)
	for _, want := range []string{"policy.cpu: 1", "policy.memory: 256Mi", "policy.callbacks: llm_query; 3 calls"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not mention %q", err, want)
		}
	}
}

func TestHostsThatLackACapability(t *testing.T) {
	t.Parallel()
	h := taskHost
	h.Unenforced = map[string]string{"cpu": "no cpu controller in the cgroup"}
	_, err := Default().Plan(h)
	if !errors.Is(err, job.ErrRefused) || !strings.Contains(err.Error(), "no cpu controller") {
		t.Errorf("strict: %v", err)
	}
	plan, err := parse(t, `{"enforce":"report"}`).Plan(h)
	if err != nil {
		t.Fatal(err)
	}
	want := job.Enforcement{Capability: "cpu", Requested: "1", Applied: "unlimited",
		Mechanism: "not enforced on this host: no cpu controller in the cgroup", Level: "none"}
	if plan.Enforcement[2] != want {
		t.Errorf("cpu: %+v", plan.Enforcement[2])
	}
}

func TestIsolationIsNeverWeakerThanAsked(t *testing.T) {
	t.Parallel()
	for _, enforce := range []string{"strict", "report"} {
		for _, c := range []struct {
			host           Host
			asked, applied Isolation
		}{
			{taskHost, Cell, Task}, {taskHost, Task, Task}, {taskHost, GVisor, ""}, {taskHost, VM, ""},
			{cellHost, Cell, Cell}, {cellHost, Task, Task}, {cellHost, GVisor, ""},
		} {
			asked, applied := c.asked, c.applied
			plan, err := parse(t, `{"isolation":"`+string(asked)+`","enforce":"`+enforce+`"}`).Plan(c.host)
			switch {
			case applied == "":
				if !errors.Is(err, job.ErrRefused) || !strings.HasPrefix(err.Error(), "policy.isolation: ") {
					t.Errorf("%s %s: got %v, want a refusal of policy.isolation", enforce, asked, err)
				}
			case err != nil:
				t.Errorf("%s %s: %v", enforce, asked, err)
			case plan.Policy.Isolation != applied || plan.Enforcement[0].Applied != string(applied) || plan.Enforcement[0].Requested != string(asked):
				t.Errorf("%s %s: policy %s, report %+v", enforce, asked, plan.Policy.Isolation, plan.Enforcement[0])
			}
		}
	}
}

// TestWhatAHostLacksIsRefused checks that a mechanism that the host lacks is an error with the name of the
// field.
func TestWhatAHostLacksIsRefused(t *testing.T) {
	t.Parallel()
	_, err := parse(t, `{"isolation":"cell"}`).Plan(Host{Isolations: []Isolation{"chroot", Cell}, Unenforced: map[string]string{"memory": "no controller"}})
	if !errors.Is(err, job.ErrRefused) || !strings.Contains(err.Error(), "policy.memory: 256Mi: not enforced on this host: no controller") {
		t.Errorf("got %v", err)
	}
}

func TestReportKeepsSecretsAndLongListsOut(t *testing.T) {
	t.Parallel()
	p := parse(t, `{"env":{"set":{"B":"hunter2","A":"hunter2"}},"write":["/a","/b","/c","/d","/e","/f","/g","/h","/i","/j"]}`)
	raw, err := json.Marshal(Explain(p, taskHost, UseAny))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"hunter2": false, `"A, B"`: true, "/h and 2 more": true} {
		if strings.Contains(string(raw), text) != want {
			t.Errorf("report mentions %q: %v", text, !want)
		}
	}
}

func TestArtifactsRow(t *testing.T) {
	t.Parallel()
	plan, err := parse(t, `{"artifacts":{"paths":["/workspace/out/*"]}}`).Plan(taskHost)
	if err != nil {
		t.Fatal(err)
	}
	row := plan.Enforcement[len(plan.Enforcement)-1]
	if row.Requested != "/workspace/out/*; 16Mi, 100 files" || row.Level != job.LevelRuntime {
		t.Errorf("row %+v", row)
	}
}
