package hostile

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// attack is one program of the corpus.
type attack struct {
	subject, name, lang string
	source              []byte
	tries, says         string
	outcomes            []job.Outcome
	policy              map[string]any
	kept                []string
	victim              string // the tenant of the innocent job beside it; empty: none
	alone               bool

	// What else comes of it where the sandbox has a kernel of its own, which
	// permits it, or does not know it, to nobody's harm but the program's.
	foreign []job.Outcome
}

// corpusPolicy is small, so that bombs go off soon. Its times are long, for busy
// machines; a program that may use them up has others.
var corpusPolicy = map[string]any{
	"wall": "60s", "cpu_time": "60s", "memory": "128Mi", "disk": "16Mi", "files": 512, "processes": 32,
}

// load reads the corpus, in order.
func load(t *testing.T) []*attack {
	t.Helper()
	files, err := filepath.Glob("programs/*/*.*")
	if err != nil {
		t.Fatal(err)
	}
	var corpus []*attack
	for _, f := range files {
		a, err := parseAttack(f)
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		corpus = append(corpus, a)
	}
	return corpus
}

func parseAttack(file string) (*attack, error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	ext := filepath.Ext(file)
	comment, ok := map[string]string{".py": "# ", ".sh": "# ", ".c": "// "}[ext]
	if !ok {
		return nil, fmt.Errorf("not a program of the corpus: choose .py, .c or .sh")
	}
	a := &attack{
		subject: filepath.Base(filepath.Dir(file)), name: strings.TrimSuffix(filepath.Base(file), ext),
		lang: ext[1:], source: source, policy: maps.Clone(corpusPolicy),
	}
	for line := range strings.Lines(string(source)) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), comment)
		if !ok {
			break
		}
		key, value, _ := strings.Cut(text, ": ")
		if err := a.set(key, value); err != nil {
			return nil, err
		}
	}
	if a.tries == "" || len(a.outcomes) == 0 {
		return nil, fmt.Errorf("the header lacks tries or outcome")
	}
	return a, nil
}

func (a *attack) set(key, value string) error {
	switch key {
	case "tries":
		a.tries = value
	case "outcome":
		for o := range strings.SplitSeq(value, "|") {
			a.outcomes = append(a.outcomes, job.Outcome(o))
		}
	case "gvisor":
		outcomes, why, ok := strings.Cut(value, ", ")
		if !ok || why == "" {
			return fmt.Errorf("gvisor: say why that will do")
		}
		for o := range strings.SplitSeq(outcomes, "|") {
			a.foreign = append(a.foreign, job.Outcome(o))
		}
	case "at gvisor": // what the attack means there, for people: it is judged as elsewhere
		if value == "" {
			return fmt.Errorf("at gvisor: say what it measures there")
		}
	case "policy":
		return json.Unmarshal([]byte(value), &a.policy)
	case "says":
		a.says = value
	case "kept":
		a.kept = strings.Fields(value)
	case "victim":
		tenant, ok := map[string]string{"yes": attacker, "other": innocent}[value]
		if !ok {
			return fmt.Errorf("victim: yes or other")
		}
		a.victim = tenant
	case "alone":
		a.alone = value == "yes"
	default:
		return fmt.Errorf("the header has an unknown line %q", key)
	}
	return nil
}

// plan makes the attack's policy concrete.
func (a *attack) plan(t *testing.T, host policy.Host, isolation policy.Isolation) *policy.Plan {
	t.Helper()
	fields := maps.Clone(a.policy)
	fields["isolation"] = isolation
	raw, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := p.Plan(host)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// TestCorpus keeps the corpus what it claims to be.
func TestCorpus(t *testing.T) {
	t.Parallel()
	corpus := load(t)
	subjects := map[string]int{}
	languages := map[string]int{}
	for _, a := range corpus {
		subjects[a.subject]++
		languages[a.lang]++
		for _, o := range slices.Concat(a.outcomes, a.foreign) {
			if !slices.Contains(job.Outcomes, o) {
				t.Errorf("%s/%s: no outcome %q", a.subject, a.name, o)
			}
		}
	}
	t.Logf("%d programs: %v, %v", len(corpus), languages, subjects)
	if len(corpus) < 150 {
		t.Errorf("%d programs, want 150 at least", len(corpus))
	}
}
