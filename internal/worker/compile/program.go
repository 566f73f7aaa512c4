package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/language"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// Program is a program to compile.
type Program struct {
	Tenant   string
	Image    string // the name in the job
	Digest   string // of the image; empty: unknown
	Language *language.Language
	Sources  map[string]string // relative path → text
	Main     string            // its entry file
	How      job.Compile       // with all limits set
	Policy   *policy.Policy    // of the job: isolation, cores, environment
}

// argv returns the command line of the compiler.
func (p *Program) argv() []string {
	in := language.Program{Main: p.Main, Files: slices.Sorted(maps.Keys(p.Sources)), Out: language.Out, Memory: p.How.Memory}
	return slices.Concat(p.Language.Expand(p.Language.Compile, in), p.How.Flags)
}

// env returns the environment of the compiler in addition to the image's. The policy's variables
// take precedence.
func (p *Program) env() map[string]string {
	env := maps.Clone(p.Language.Compile.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, p.Policy.Env.Set)
	return env
}

// key returns the cache key of p in an image with this digest.
func (p *Program) key(digest string) string {
	raw, err := json.Marshal(struct { // map keys are sorted
		Version                        int
		Tenant, Digest, Language, Main string
		Argv                           []string
		Env, Sources                   map[string]string
		Isolation                      policy.Isolation
		Memory, Disk                   job.Size
		Processes                      int
		Restricted                     *policy.Policy `json:",omitempty"`
	}{1, p.Tenant, digest, p.Language.Name, p.Main, p.argv(), p.env(), p.Sources, p.Policy.Isolation, p.How.Memory, p.disk(), p.processes(), p.restricted()})
	if err != nil { // only strings and numbers
		panic(err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// restricted returns the policy of the compiler if the job's policy restricts helpers, otherwise
// nil.
func (p *Program) restricted() *policy.Policy {
	if !p.Policy.RestrictHelpers {
		return nil
	}
	pol := p.bare()
	return &pol
}

func (p *Program) processes() int {
	return max(p.Language.Compile.Processes, p.Policy.Processes)
}

func (p *Program) disk() job.Size { return max(p.Policy.Disk, disk) }

// Request is one run of a language's tool in a sandbox.
type Request struct {
	Command job.Command
	Files   []runtime.File
	Policy  policy.Policy
	Collect runtime.Collector // nil: collects nothing
}

// Limits of a compilation in addition to the language's and the job's.
const (
	maxFiles = 4096          // output files
	maxBytes = 128 * job.MiB // their size
	disk     = 256 * job.MiB // output plus temporary files; in memory, so within its limit
	maxWords = 32 * job.KiB  // kept bytes of each stream of the compiler
)

// keep is a file that creates the output directory.
const keep = language.Out + "/.keep"

// request returns the compiler's request. It has no network, no secrets and no packages.
func (p *Program) request(take runtime.Collector) Request {
	pol := p.bare()
	pol.Artifacts = policy.Artifacts{Paths: []string{language.Out + "/**"}, MaxBytes: maxBytes, MaxFiles: maxFiles}
	r := Request{
		Command: job.Command{Argv: p.argv(), Dir: language.Dir},
		Policy:  pol,
		Collect: take,
		Files:   []runtime.File{{Path: keep, Data: []byte{}}},
	}
	for _, name := range slices.Sorted(maps.Keys(p.Sources)) {
		r.Files = append(r.Files, runtime.File{Path: path.Join(language.Dir, name), Data: []byte(p.Sources[name])})
	}
	return r
}

// version returns the request for the language's version, without the program.
func (p *Program) version() Request {
	return Request{Command: job.Command{Argv: p.Language.Version, Dir: language.Dir}, Policy: p.bare()}
}

// bare returns the policy of a compiler. The job's policy applies as well if it restricts helpers.
func (p *Program) bare() policy.Policy {
	pol := policy.Default()
	pol.Isolation, pol.Enforce, pol.CPU = p.Policy.Isolation, p.Policy.Enforce, p.Policy.CPU
	pol.Wall, pol.Memory, pol.Processes = p.How.Wall, p.How.Memory, p.processes()
	pol.CPUTime = job.Duration(float64(p.How.Wall) * math.Max(math.Ceil(p.Policy.CPU), 1))
	pol.Disk, pol.Files, pol.OpenFiles = p.disk(), max(p.Policy.Files, maxFiles), max(p.Policy.OpenFiles, pol.OpenFiles)
	pol.Stdout.Limit, pol.Stderr.Limit = maxWords, maxWords
	pol.Env.Set = p.env()
	sources := job.Size(0)
	for _, text := range p.Sources {
		sources += job.Size(len(text))
	}
	return p.Policy.Helper(pol, sources)
}

// Missing reports that an image lacks a language.
type Missing struct {
	Language *language.Language
	Image    string
	Why      string
}

func (m *Missing) Error() string {
	return fmt.Sprintf("language %s: the image %s does not have it (%s); name an image that has", m.Language.Name, m.Image, m.Why)
}

// missing returns the error for a command that could not be started.
func (p *Program) missing(argv []string, rep *runtime.Report) error {
	return NewMissing(p.Language, p.Image, argv, rep)
}

// NewMissing returns the error for a language's tool that could not be started.
func NewMissing(l *language.Language, image string, argv []string, rep *runtime.Report) *Missing {
	return &Missing{l, image, fmt.Sprintf("%s: %s", strings.Join(argv[:1], ""), job.Clip(rep.Message, 200))}
}
