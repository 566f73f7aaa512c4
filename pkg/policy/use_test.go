package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

// rowsFor returns the report of a policy by capability.
func rowsFor(t *testing.T, raw string, u Use) map[string]job.Enforcement {
	t.Helper()
	out := map[string]job.Enforcement{}
	for _, row := range Explain(parse(t, raw), cellHost, u) {
		out[row.Capability] = row
	}
	return out
}

// TestCapabilitiesByUse checks that a capability without enforcement for a kind of program is refused under
// strict, by admission and by the worker. Otherwise the report has none for it. On 490fff9 the report of a
// command claimed that imports were checked, and that of a job that calls were counted.
func TestCapabilitiesByUse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		capability, policy, without string
		fit                         []Use
	}{
		{"imports", `"imports":{"deny":["os"]}`, "unrestricted", []Use{UsePython, UseTests, UseSession}},
		{"imports", `"imports":{"deny":["*"]}`, "unrestricted", []Use{UsePython, UseTests, UseSession}},
		{"callbacks", `"callbacks":{"allow":["f"],"max_calls":1}`, "none", []Use{UseSession}},
		{"artifacts", `"artifacts":{"paths":["/tmp/*"]}`, "none", []Use{UsePython, UseCommand, UseTests, UseCode, UseSession, UseShell}},
		{"env.secrets", `"env":{"secrets":{"A":"a"}}`, "none", []Use{UsePython, UseCommand, UseTests, UseCode}},
	} {
		for _, u := range Uses {
			fit := u == UseAny
			for _, f := range c.fit {
				fit = fit || f == u
			}
			strict := parse(t, "{"+c.policy+"}")
			_, err := strict.PlanFor(cellHost, u)
			admitted := strict.Check(u)
			if fit != (err == nil) || fit != (admitted == nil) {
				t.Errorf("%s for %q: planned %v, admitted %v", c.capability, u, err, admitted)
			}
			if !fit && (!errors.Is(err, job.ErrRefused) || !errors.Is(admitted, job.ErrInvalid) || !strings.HasPrefix(admitted.Error(), "policy."+c.capability+": ")) {
				t.Errorf("%s for %q: refused with %v and %v", c.capability, u, err, admitted)
			}
			lenient := `{"enforce":"report",` + c.policy + "}"
			p := parse(t, lenient)
			if err := p.Check(u); err != nil {
				t.Errorf("%s for %q, reported: %v", c.capability, u, err)
			}
			row := rowsFor(t, lenient, u)[c.capability]
			if fit != (row.Level != job.LevelNone) || !fit && (row.Applied != c.without || !strings.HasPrefix(row.Mechanism, "not enforced: ")) {
				t.Errorf("%s for %q: %+v", c.capability, u, row)
			}
		}
	}
}

// If another mechanism enforces it, the report names that mechanism.
func TestMechanismsByUse(t *testing.T) {
	t.Parallel()
	for u, want := range map[Use]map[string]string{
		UseCommand: {"wall": "timer that pauses while the program waits for a core, kill of the pid namespace", "cpu_time": "cgroup cpu meter, kill", "stdout": "collector that keeps draining"},
		UseTests:   {"cpu_time": "one cpu meter over the cgroups of all sandboxes, kill", "stderr": "collector that keeps draining, for each run of the solution"},
		UseShell:   {"wall": "timer of each execution, paused while it waits for a core: interrupt, then kill of the pid namespace", "memory": "cgroup memory"},
	} {
		rows := rowsFor(t, `{}`, u)
		for capability, mechanism := range want {
			if rows[capability].Mechanism != mechanism {
				t.Errorf("%s for %q: %+v", capability, u, rows[capability])
			}
		}
	}
	for _, u := range []Use{UseSession, UseShell} { // its own process collects it
		if row := rowsFor(t, `{}`, u)["stdout"]; row.Level != job.LevelHarness {
			t.Errorf("stdout for %q: %+v", u, row)
		}
	}
}

// A host applies no more cores than it has.
func TestCoresThatThereAre(t *testing.T) {
	t.Parallel()
	if row := rowsFor(t, `{"cpu":64}`, UseCommand)["cpu"]; row.Requested != "64" || row.Applied != "2" {
		t.Errorf("64 of 2: %+v", row)
	}
}

// TestImportRules checks the description of import rules, and that a solution run by another program has
// none.
func TestImportRules(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"imports":{"deny":["*"]}}`:                                   "none",
		`{"imports":{"deny":["*"],"allow":["math","json"]}}`:           "only math, json",
		`{"imports":{"deny":["*","os.path"],"allow":["os"]}}`:          "only os; deny os.path",
		`{"imports":{"allow":["math"]}}`:                               "allow math; deny none",
		`{"imports":{"deny":["os"]}}`:                                  "allow none; deny os",
		`{"imports":{"deny":[],"allow":[]}}`:                           "unrestricted",
		`{"enforce":"report","imports":{"allow":["os"],"deny":["*"]}}`: "only os",
	} {
		if row := rowsFor(t, raw, UseSession)["imports"]; row.Requested != want || row.Applied != want {
			t.Errorf("%s: %+v", raw, row)
		}
	}
	own := job.Spec{Program: job.Program{Tests: &job.Tests{Code: "0", Stdio: []job.Stdio{{Stdout: "1"}, {Argv: []string{"cat"}}}}}}
	err := parse(t, `{"enforce":"report","imports":{"deny":["os"]}}`).CheckSpec(own)
	if err == nil || !strings.Contains(err.Error(), "policy.imports: program.tests.stdio[1].argv") {
		t.Errorf("a program of its own: %v", err)
	}
	own.Program.Tests.Stdio = own.Program.Tests.Stdio[:1]
	if err := parse(t, `{"imports":{"deny":["*"]}}`).CheckSpec(own); err != nil {
		t.Error(err)
	}
}
