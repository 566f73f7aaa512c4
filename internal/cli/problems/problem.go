// Package problems imports problem packages as tests for jobs: Kattis packages, and the JSON of
// CodeContests.
package problems

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/language"
)

// Problem is one problem, without a solution.
type Problem struct {
	Name      string
	Tests     job.Tests
	Memory    job.Size // limit of a solution; 0: unspecified
	Solutions []Solution
	Notes     []string // parts that were not imported
}

// Solution is a solution that came with a problem.
type Solution struct {
	Name, Expected string // such as "accepted"
	Language       string // of the catalogue
	Source         string
	Files          map[string]string // instead of source
}

// Upload stores a blob and returns its digest, like client.PutBlob.
type Upload func(ctx context.Context, r io.ReadSeeker) (digest string, err error)

// inline is the most bytes of a case inside a job. Larger data is uploaded once for all jobs.
const inline = 4 << 10

// together is the most bytes of all cases inside a job, besides names and digests. If there are
// more, the largest are uploaded.
const together = 4 << 20

// finish checks that a job with the cases is acceptable, and uploads large data.
func (p *Problem) finish(ctx context.Context, upload Upload) error {
	if n := len(p.Tests.Stdio); n > job.MaxCases {
		return fmt.Errorf("it has %d cases; a job has at most %d", n, job.MaxCases)
	}
	type stream struct{ text, base64, blob *string }
	var all []stream
	left := -together
	for i := range p.Tests.Stdio {
		s := &p.Tests.Stdio[i]
		all = append(all, stream{&s.Stdin, &s.StdinBase64, &s.StdinBlob}, stream{&s.Stdout, &s.StdoutBase64, &s.StdoutBlob})
		left += len(s.Stdin) + len(s.StdinBase64) + len(s.Stdout) + len(s.StdoutBase64)
	}
	size := func(s stream) int { return len(*s.text) + len(*s.base64) }
	slices.SortStableFunc(all, func(a, b stream) int { return size(b) - size(a) })
	for _, s := range all {
		if left <= 0 {
			break
		}
		left -= size(s)
		raw := []byte(*s.text)
		if *s.base64 != "" {
			raw, _ = base64.StdEncoding.DecodeString(*s.base64) // it was encoded here
		}
		digest, err := upload(ctx, bytes.NewReader(raw))
		if err != nil {
			return fmt.Errorf("upload a case: %w", err)
		}
		*s.text, *s.base64, *s.blob = "", "", digest
	}
	_, err := p.Job(&Solution{Name: "solution", Language: language.Python, Source: "pass"})
	return err
}

// inSeconds converts a package's time limit in seconds.
func inSeconds(field string, n float64) (job.Duration, error) {
	if !(n > 0 && n <= 3600) {
		return 0, fmt.Errorf("%s is %g seconds: it must be above 0 and at most an hour, or left out for %s", field, n, defaultTime)
	}
	return max(job.Duration(n*float64(time.Second)), job.Duration(time.Millisecond)), nil
}

// defaultTime is the default time limit of a case.
const defaultTime = job.Duration(2 * time.Second)

// Job returns a job that grades a solution of the problem.
func (p *Problem) Job(s *Solution) (job.Spec, error) {
	t := p.Tests
	t.Language, t.Code, t.Files = s.Language, s.Source, s.Files
	spec := job.Spec{Name: p.Name + "/" + s.Name, Program: job.Program{Tests: &t}, Labels: map[string]string{"problem": p.Name, "expected": s.Expected}}
	if spec.Labels["expected"] == "" {
		delete(spec.Labels, "expected")
	}
	wall, memory := p.Needs()
	spec.Policy = fmt.Appendf(nil, `{"wall":%q,"cpu_time":%q,"memory":%q}`, wall, wall, memory)
	return spec, spec.Validate()
}

// Needs returns the minimum policy of a job: time for all cases, and memory.
func (p *Problem) Needs() (wall job.Duration, memory job.Size) {
	wall = job.Duration(10 * time.Second)
	for i := range p.Tests.Stdio {
		wall += p.Tests.Stdio[i].Wall
	}
	return min(wall, job.MaxWall), max(p.Memory, 256*job.MiB)
}

// data is a stream of a case: inline, or as a blob.
type data struct{ text, base64, blob string }

func newData(ctx context.Context, raw []byte, upload Upload) (d data, err error) {
	switch {
	case len(raw) > inline:
		d.blob, err = upload(ctx, bytes.NewReader(raw))
	case utf8.Valid(raw) && !bytes.ContainsRune(raw, 0):
		d.text = string(raw)
	default:
		d.base64 = base64.StdEncoding.EncodeToString(raw)
	}
	return d, err
}

// add adds a case.
func (p *Problem) add(ctx context.Context, name string, input, answer []byte, wall job.Duration, upload Upload) error {
	in, err := newData(ctx, input, upload)
	if err != nil {
		return fmt.Errorf("upload the input of %s: %w", name, err)
	}
	out, err := newData(ctx, answer, upload)
	if err != nil {
		return fmt.Errorf("upload the answer of %s: %w", name, err)
	}
	p.Tests.Stdio = append(p.Tests.Stdio, job.Stdio{
		Name: name, Wall: wall, Stdin: in.text, StdinBase64: in.base64, StdinBlob: in.blob, Stdout: out.text, StdoutBase64: out.base64, StdoutBlob: out.blob,
	})
	return nil
}

// extensions maps file extensions to languages. Several languages may share one, such as python and
// its test runner.
var extensions = map[string]string{
	".c": "c", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp", ".C": "cpp", ".cs": "csharp", ".go": "go", ".hs": "haskell", ".java": "java", ".js": "javascript", ".jl": "julia",
	".kt": "kotlin", ".lua": "lua", ".ml": "ocaml", ".pl": "perl", ".php": "php", ".py": "python", ".py3": "python", ".R": "r", ".rb": "ruby", ".rs": "rust", ".scala": "scala", ".sh": "bash", ".ts": "typescript",
}

// languageOf returns the language of a source file by its name, or "".
func languageOf(file string) string {
	name := extensions[path.Ext(file)]
	if _, err := language.Find(name); err != nil {
		return ""
	}
	return name
}

// fields splits the flags of a package.
func fields(flags string) []string { return strings.Fields(flags) }
