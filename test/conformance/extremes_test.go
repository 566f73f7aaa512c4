package conformance

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// What a usual run takes of the extremes. The numbers are prime, so that each run has something of every program and level.
var (
	extremesOfCells = testenv.NewPart("extremes.cell", 17)
	extremesBeyond  = testenv.NewPart("extremes.beyond", 211)
	extremesOnly    = flag.String("extremes.only", "", "run all combinations whose names contain this, and no others")
)

// extreme is one value of one field of a policy.
type extreme struct {
	field string // as dotted names
	value any
	with  limits // what the rest of the policy has to be, for the value to be the only extreme one
}

// policy returns the policy of an extreme.
func (x extreme) policy() limits {
	out := limits{}
	maps.Copy(out, x.with)
	group, name, nested := strings.Cut(x.field, ".")
	if !nested {
		out[group] = x.value
		return out
	}
	fields := map[string]any{name: x.value}
	if others, ok := out[group].(map[string]any); ok {
		fields = maps.Clone(others)
		fields[name] = x.value
	}
	out[group] = fields
	return out
}

func (x extreme) String() string {
	raw, _ := json.Marshal(x.value)
	return fmt.Sprintf("%s=%.40s#%d", x.field, raw, len(raw))
}

// long is a text of 200,000 bytes.
var long = strings.Repeat("n", 200_000)

// texts are odd values of text.
var texts = []any{"", " ", "\x00", "a\x00b", "é", "\u202e", "\U0001F600", "\x7f", "../..", "-x", "*", "@1", strings.Repeat("n", 256), long}

// durations, sizes, whole and names of choices are odd values of other types. Each field adds its own bounds.
var (
	durations = []any{"", "0s", "-1s", "1ns", "1us", "999999h", "1e9s", 5, "x"}
	sizes     = []any{"", "0", "-1", "1", "1023", "16Ei", "1e30", "9223372036854775807", 5, "x"}
	numbers   = []any{0, -1, 1, 2, 1 << 31, 1 << 62, 1e300, 0.5, "1"}
	switches  = []any{true, false, 0, "true"}
)

// lists returns odd lists, of which some have one of these entries.
func lists(entries ...any) (out []any) {
	out = []any{[]any{}, nil, "x", []any{nil}, slices.Repeat([]any{"a"}, 257)}
	for _, e := range slices.Concat(texts, entries) {
		out = append(out, []any{e})
	}
	return out
}

// places are paths that are odd as directories of a sandbox.
var places = []any{
	"/", "//", "/tmp/", "/tmp/..", "tmp", "/proc", "/proc/1/root", "/sys", "/sys/fs/cgroup", "/dev", "/dev/shm", "/dev/null", "/run", "/run/assay", "/run/assay/x",
	"/etc", "/etc/passwd", "/etc/passwd/x", "/usr", "/usr/bin", "/usr/bin/env", "/usr/bin/python3", "/bin", "/lib", "/lib64/x", "/home", "/root", "/var/run", "/var/run/x",
	"/opt/a/b/c/d", "/x\ny", "/x y", "/é/\U0001F600", "/\u202e", "/" + strings.Repeat("n", 255), "/" + strings.Repeat("n", 256), "/" + strings.Repeat("é", 127) + "x",
	"/" + strings.Repeat("é", 128), strings.Repeat("/"+strings.Repeat("n", 200), 5), strings.Repeat("/"+strings.Repeat("n", 254), 4), strings.Repeat("/n", 512),
	"/workspace/.hidden", "/tmp/a,b:c=d\\e", "/a'b\"c", "/tmp/%s",
}

// words are maps of odd names and values.
func words(names, values []any) (out []any) {
	out = []any{map[string]any{}, nil, []any{}}
	for _, n := range names {
		out = append(out, map[string]any{fmt.Sprint(n): "x"})
	}
	for _, v := range values {
		out = append(out, map[string]any{"A": v})
	}
	return out
}

// extremes has the extreme values of each field of a policy. A field without values fails TestExtremesOfEachField.
var extremes = map[string][]any{
	"isolation":           {}, // a dimension of its own
	"enforce":             append([]any{"strict", "report"}, texts...),
	"wall":                append([]any{"1ms", "999us", "24h", "24h0m0.000000001s"}, durations...),
	"cpu":                 append([]any{0.05, 0.049, 4, 4.001, 256, 256.1}, numbers...),
	"cpu_time":            append([]any{"1ms", "999us", "6144h", "6144h0m1s"}, durations...),
	"memory":              append([]any{"16Mi", "16777215", "1Gi", "1Ti", "1099511627777"}, sizes...),
	"stack":               append([]any{"1Mi", "1048575", "256Mi", "257Mi", "64Gi", "65Gi"}, sizes...),
	"processes":           append([]any{32768, 32769}, numbers...),
	"subprocesses":        switches,
	"disk":                append([]any{"64Ki", "65535", "1Ti", "1099511627777"}, sizes...),
	"files":               append([]any{16, 15, 100_000_000, 100_000_001}, numbers...),
	"open_files":          append([]any{16, 15, 1 << 20, 1<<20 + 1}, numbers...),
	"stdout.limit":        append([]any{"16Mi", "16777217"}, sizes...),
	"stdout.on_exceed":    append([]any{"truncate", "kill"}, texts...),
	"stderr.limit":        append([]any{"16Mi", "16777217"}, sizes...),
	"stderr.on_exceed":    append([]any{"truncate", "kill"}, texts...),
	"read":                append(lists(places...), many("/r", 16), many("/r", 17), []any{"/a", "/a/b"}, []any{"/a", "/a"}, []any{"/tmp"}),
	"write":               append(lists(places...), many("/w", 16), many("/w", 17), []any{"/a", "/a/b"}, []any{"/a", "/a"}),
	"network.mode":        append([]any{"none", "allow", "open"}, texts...),
	"network.allow":       lists("example.org:443", "*.example.org:*", "127.0.0.1:1", "0.0.0.0/0:*", "[::]/0:*", "example.org:0", "example.org:65536", strings.Repeat("a.", 200)+"org:443"),
	"network.max_bytes":   append([]any{"1Ki", "1Ti", "1099511627777"}, sizes...),
	"network.private":     lists("127.0.0.0/8:*", "0.0.0.0/0:*"),
	"env.set":             words(append(texts, "PATH", "LD_PRELOAD", "PYTHONHOME", "A=B", "1A", strings.Repeat("A", 256), strings.Repeat("A", 257)), append(texts, strings.Repeat("x", 100_000), strings.Repeat("x", 131_069), strings.Repeat("é", 60_000), nil, 1)),
	"env.secrets":         words(append(texts, "A"), append(texts, "no-such-secret", nil, 1)),
	"imports.allow":       lists("os", "os.path", "*", "os..path", "0", strings.Repeat("a", 256)),
	"imports.deny":        lists("os", "sys", "builtins", "*", "encodings"),
	"packages":            lists("no-such-package-of-ours", "--index-url=x", "numpy @ http://x", "a==1,", "../x"),
	"syscalls":            append([]any{"default", "strict"}, texts...),
	"callbacks.allow":     lists("f", "*", "f.g"),
	"callbacks.max_calls": append([]any{1_000_000_000, 1_000_000_001}, numbers...),
	"artifacts.paths":     lists(append(slices.Clone(places), "/**", "/workspace/**/*", "/workspace/[", "/**/**/**", "/proc/**", strings.Repeat("/**/a", 9), "/workspace/\\")...),
	"artifacts.max_bytes": append([]any{"1Ti", "1099511627777"}, sizes...),
	"artifacts.max_files": append([]any{100_000, 100_001}, numbers...),
	"asked":               words(texts, texts),
	"restrict_helpers":    switches,
}

// needs are what the rest of a policy has to be for a field to have a meaning.
var needs = map[string]limits{
	"network.allow":     {"network": map[string]any{"mode": "allow"}},
	"network.max_bytes": {"network": map[string]any{"mode": "open"}},
	"network.private":   {"network": map[string]any{"mode": "open"}},
	"stack":             {"memory": "256Mi"},
}

// programsOfHelpers are kinds of programs in which the policy is that of other programs as well.
var programsOfHelpers = []program{
	{name: "tests checker", run: aJob(func(string) job.Program {
		return job.Program{Tests: &job.Tests{Code: "print(1)", Stdio: []job.Stdio{{Stdout: "1"}}, Checker: &job.Checker{Argv: []string{"python3", "-c", "exit(42)"}}}}
	})},
	{name: "tests interactor", run: aJob(func(string) job.Program {
		return job.Program{Tests: &job.Tests{Code: "print(input())", Stdio: []job.Stdio{{}},
			Interactor: &job.Checker{Argv: []string{"python3", "-c", "print(1, flush=True); input(); exit(42)"}}}}
	})},
	{name: "tests argv", run: aJob(func(string) job.Program {
		return job.Program{Tests: &job.Tests{Stdio: []job.Stdio{{Argv: []string{"echo", "1"}, Stdout: "1"}}}}
	})},
	{name: "code", run: aJob(func(string) job.Program {
		return job.Program{Code: &job.Code{Language: "python", Source: "print(1)"}}
	})},
	{name: "compiled code", run: aJob(func(string) job.Program {
		return job.Program{Code: &job.Code{Language: "c", Source: "int main(void) { return 0; }"}}
	})},
}

// many returns so many places.
func many(prefix string, n int) (out []any) {
	for i := range n {
		out = append(out, prefix+fmt.Sprint(i))
	}
	return out
}

// fieldsOf lists the fields of a policy, by dotted names.
func fieldsOf(t reflect.Type, prefix string) (out []string) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || name == "":
		case f.Type.Kind() == reflect.Struct:
			out = append(out, fieldsOf(f.Type, prefix+name+".")...)
		default:
			out = append(out, prefix+name)
		}
	}
	return out
}

// TestExtremesOfEachField holds that every field of a policy has extreme values here.
func TestExtremesOfEachField(t *testing.T) {
	fields := fieldsOf(reflect.TypeFor[policy.Policy](), "")
	for _, f := range fields {
		if _, ok := extremes[f]; !ok {
			t.Errorf("policy.%s has no extreme values; add them to extremes", f)
		}
	}
	for f := range extremes {
		if !slices.Contains(fields, f) {
			t.Errorf("a policy has no field %s", f)
		}
	}
}

// attempted is a program at a level under a policy with an extreme value.
type attempted struct {
	level   string
	program *program
	extreme
}

func (c attempted) name() string { return c.level + "/" + c.program.name + "/" + c.String() }

// allExtremes returns every extreme of every program at these levels. Neighbours differ in all three, so a part has something of each.
func allExtremes(levels ...string) (out []attempted) {
	for _, field := range slices.Sorted(maps.Keys(extremes)) {
		for _, v := range extremes[field] {
			for _, p := range slices.Concat(programs, programsOfHelpers) {
				for _, level := range levels {
					if p.without[level] == "" {
						out = append(out, attempted{level, &p, extreme{field, v, needs[field]}})
					}
				}
			}
		}
	}
	return out
}

// TestExtremes holds that a policy with an extreme value is refused with the name of the field, or its job has one attempt with an
// outcome of its own. It never ends as lost, and no worker stops taking jobs.
func TestExtremes(t *testing.T) {
	f := start(t)
	cases := append(testenv.Of(t, extremesOfCells, allExtremes("cell")), testenv.Of(t, extremesBeyond, allExtremes("task", "gvisor"))...)
	if *extremesOnly != "" {
		cases = slices.DeleteFunc(allExtremes("cell", "task", "gvisor"), func(c attempted) bool { return !strings.Contains(c.name(), *extremesOnly) })
	}
	queue, workers := make(chan attempted), sync.WaitGroup{}
	for range 8 {
		workers.Go(func() {
			for c := range queue {
				slow := time.AfterFunc(2*time.Minute, func() { t.Errorf("%s/%s/%s takes long", c.level, c.program.name, c) })
				f.extreme(t, c)
				slow.Stop()
			}
		})
	}
	for _, c := range cases {
		queue <- c
	}
	close(queue)
	workers.Wait()
	log, err := os.ReadFile(filepath.Join(f.dir, "worker.log"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "circuit breaker open") || strings.Contains(line, "in quarantine") {
			t.Errorf("the worker stopped taking jobs: %s", line)
		}
	}
}

// extreme runs one program under its policy, and judges what came of it.
func (f *fleet) extreme(t *testing.T, c attempted) {
	name := c.name()
	o, err := c.program.run(t, f, "def act(): pass", written(t, c.level, c.policy()))
	if err != nil {
		group, _, _ := strings.Cut(c.field, ".")
		named := strings.Contains(err.Error(), "policy."+group)
		if errors.Is(err, job.ErrConflict) && strings.Contains(err.Error(), "has ended (timed_out)") {
			return // the session was made, and then reached its limit
		}
		if errors.Is(err, job.ErrRefused) && strings.Contains(err.Error(), "the session ended as it began: ") {
			return // the session reached its limit while it was made; the message gives the outcome
		}
		if strings.Contains(err.Error(), "/fork: ") && (errors.Is(err, job.ErrInvalid) || errors.Is(err, job.ErrRefused) || errors.Is(err, job.ErrConflict)) {
			return // the session was made, and cannot be copied
		}
		if named && (group == "cpu" || group == "memory") && errors.Is(err, job.ErrUnavailable) {
			return // more than the only worker has: a larger one could take the session
		}
		if !named || !errors.Is(err, job.ErrInvalid) && !errors.Is(err, job.ErrRefused) {
			t.Errorf("%s: %.400v, want a refusal that names the field", name, err)
		}
		return
	}
	switch o.outcome {
	case job.Expired:
		if c.field != "cpu" && c.field != "memory" { // more than the only worker has: it waits for a larger one
			t.Errorf("%s waited for a minute: %.300s", name, o.message)
		}
		return
	case job.Lost, job.OutcomeCanceled, "":
		t.Errorf("%s: %s (%.300s)", name, o.outcome, o.message)
	}
	if r, ok := o.raw.(*job.Result); ok && (len(r.Attempts) != 1 || r.Attempts[0].Reason != job.ReasonNone) {
		t.Errorf("%s: attempts %+v, want one (%.300s)", name, r.Attempts, r.Message)
	}
}
