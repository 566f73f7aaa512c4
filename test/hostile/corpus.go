package hostile

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/test/corpus"
)

//go:embed programs hostile.py hostile.h
var files embed.FS

// Neighbour is the code of an honest Python job that uses a little of every resource that the kernel
// counts. It prints one "round" at its beginning, and each refusal. It ends after as many rounds as
// the variable ROUNDS sets; without it, never.
//
//go:embed neighbour.py
var Neighbour string

// Attack is one program of the corpus, and its header.
type Attack struct {
	Subject, Name string
	Lang          string // py, c or sh
	Source        []byte
	Tries, Says   string
	Outcomes      []job.Outcome
	Policy        map[string]any // without isolation
	Kept          []string
	Victim        Victim
	Alone         bool

	// Foreign is further outcomes in a sandbox with a kernel of its own. That kernel permits the
	// attack or does not implement it, to the harm of the program alone.
	Foreign []job.Outcome
}

// Victim is the owner of the innocent job beside an attack.
type Victim string

const (
	Nobody Victim = ""
	Same   Victim = "yes"   // of the attacker's own tenant
	Other  Victim = "other" // of another tenant
)

// corpusPolicy is small, so that bombs exhaust it soon. Its times are long, for busy machines.
// Programs that may use them up have others.
var corpusPolicy = map[string]any{
	"wall": "60s", "cpu_time": "60s", "memory": "128Mi", "disk": "16Mi", "files": 512, "processes": 32,
}

// Corpus returns all attacks, in order. It fails if a header is empty or has unknown keys.
func Corpus() (all []*Attack, err error) {
	names, err := fs.Glob(files, "programs/*/*.*")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		a, err := parse(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, a)
	}
	return all, nil
}

func parse(file string) (*Attack, error) {
	source, err := files.ReadFile(file)
	if err != nil {
		return nil, err
	}
	ext := path.Ext(file)
	comment, ok := map[string]string{".py": "# ", ".sh": "# ", ".c": "// "}[ext]
	if !ok {
		return nil, fmt.Errorf("not a program of the corpus: choose .py, .c or .sh")
	}
	a := &Attack{
		Subject: path.Base(path.Dir(file)), Name: strings.TrimSuffix(path.Base(file), ext),
		Lang: ext[1:], Source: source, Policy: maps.Clone(corpusPolicy),
	}
	for key, value := range corpus.Header(string(source), comment) {
		if err := a.set(key, value); err != nil {
			return nil, err
		}
	}
	if a.Tries == "" || len(a.Outcomes) == 0 {
		return nil, fmt.Errorf("the header lacks tries or outcome")
	}
	return a, nil
}

func (a *Attack) set(key, value string) error {
	switch key {
	case "tries":
		a.Tries = value
	case "outcome":
		a.Outcomes = corpus.Outcomes(value)
	case "gvisor":
		list, why, ok := strings.Cut(value, ", ")
		if !ok || why == "" {
			return fmt.Errorf("gvisor: say why that will do")
		}
		a.Foreign = corpus.Outcomes(list)
	case "at gvisor": // the attack's meaning there, for people: it is judged as elsewhere
		if value == "" {
			return fmt.Errorf("at gvisor: say what it measures there")
		}
	case "policy":
		return json.Unmarshal([]byte(value), &a.Policy)
	case "says":
		a.Says = value
	case "kept":
		a.Kept = strings.Fields(value)
	case "victim":
		a.Victim = Victim(value)
		if a.Victim != Same && a.Victim != Other {
			return fmt.Errorf("victim: yes or other")
		}
	case "alone":
		a.Alone = value == "yes"
	default:
		return fmt.Errorf("the header has an unknown line %q", key)
	}
	return nil
}

// String returns the attack's file name.
func (a *Attack) String() string { return a.Subject + "/" + a.Name + "." + a.Lang }

// Document returns the attack's policy at an isolation, with variables for its environment, as a
// client writes it.
func (a *Attack) Document(isolation policy.Isolation, env map[string]string) (json.RawMessage, error) {
	fields := maps.Clone(a.Policy)
	fields["isolation"] = isolation
	if len(env) > 0 {
		fields["env"] = map[string]any{"set": env}
	}
	return json.Marshal(fields)
}

// Program returns the program of the attack, and its files by path. The binary is that of a C
// program (see Build).
func (a *Attack) Program(binary []byte) (job.Program, map[string][]byte, error) {
	switch a.Lang {
	case "py":
		prelude, err := files.ReadFile("hostile.py")
		return job.Program{Python: &job.Python{Code: string(a.Source)}}, map[string][]byte{"/workspace/hostile.py": prelude}, err
	case "sh":
		return command("bash", "/workspace/attack"), map[string][]byte{"/workspace/attack": a.Source}, nil
	}
	if len(binary) == 0 {
		return job.Program{}, nil, fmt.Errorf("%s was not compiled", a)
	}
	return command("/workspace/attack"), map[string][]byte{"/workspace/attack": binary}, nil
}

func command(argv ...string) job.Program { return job.Program{Command: &job.Command{Argv: argv}} }

// Build returns an honest job that compiles the C programs among attacks. Its artifacts are the
// binaries, and Built returns the attack of each. Only its policy, program and files are useful.
func Build(attacks []*Attack) (build *Attack, p job.Program, sources map[string][]byte, err error) {
	prelude, err := files.ReadFile("hostile.h")
	sources = map[string][]byte{"/workspace/src/hostile.h": prelude}
	for _, a := range attacks {
		if a.Lang == "c" {
			sources["/workspace/src/"+a.Subject+"__"+a.Name+".c"] = a.Source
		}
	}
	script := `mkdir bin; cd src; ls *.c | xargs -P2 -I{} sh -c 'gcc -O1 -w -pthread -o ../bin/$(basename {} .c) {} || exit 255'`
	return &Attack{Policy: map[string]any{
		"wall": "10m", "cpu_time": "10m", "cpu": 2, "memory": "1Gi", "disk": "256Mi",
		"artifacts": map[string]any{"paths": []string{"/workspace/bin/*"}, "max_files": 1000, "max_bytes": "64Mi"},
	}}, command("bash", "-c", script), sources, err
}

// Built returns the attack of an artifact of Build, as String does.
func Built(artifact string) string {
	return strings.Replace(path.Base(artifact), "__", "/", 1) + ".c"
}

// Seen is the result of an attack.
type Seen struct {
	Outcome job.Outcome
	Message string
	Said    string   // both streams
	Kept    []string // paths of artifacts
}

// Judge lists the violations of an attack at an isolation.
func (a *Attack) Judge(isolation policy.Isolation, s Seen) (wrong []string) {
	if isolation == policy.GVisor && slices.Contains(a.Foreign, s.Outcome) {
		return nil
	}
	if !slices.Contains(a.Outcomes, s.Outcome) {
		wrong = append(wrong, fmt.Sprintf("it tries to %s, and gets %s (%s), want %s", a.Tries, s.Outcome, s.Message, a.Outcomes))
	}
	if strings.Contains(s.Said, "ESCAPED") {
		wrong = append(wrong, fmt.Sprintf("it tries to %s, and says that it could", a.Tries))
	}
	want := a.Says
	if want == "" && slices.Equal(a.Outcomes, []job.Outcome{job.Succeeded}) {
		want = "contained\n"
	}
	if !strings.Contains(s.Said, want) {
		wrong = append(wrong, fmt.Sprintf("the output lacks %q", want))
	}
	if names := slices.Sorted(slices.Values(s.Kept)); !slices.Equal(names, slices.Sorted(slices.Values(a.Kept))) {
		wrong = append(wrong, fmt.Sprintf("artifacts %v, want %v", names, a.Kept))
	}
	return wrong
}
