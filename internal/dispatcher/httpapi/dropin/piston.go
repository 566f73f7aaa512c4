package dropin

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/language"
)

const (
	// pistonSlack is additional time for a request. open-r1's client gives up after 30 seconds without data; with the
	// default limits, requests end earlier.
	pistonSlack = 8 * time.Second
	// Piston's default limits.
	pistonCompile = 10 * time.Second
	pistonRun     = 3 * time.Second
)

// piston returns Piston's routes under a prefix.
func (h *Handlers) piston(prefix string) []web.Route {
	return []web.Route{
		at("POST "+prefix+"/api/v2/execute", failPiston, h.execute),
		at("GET "+prefix+"/api/v2/runtimes", failPiston, h.runtimes),
	}
}

// pistonRequest is the body of POST /api/v2/execute.
type pistonRequest struct {
	Language      string            `json:"language"`
	Version       string            `json:"version"`
	Files         []json.RawMessage `json:"files"`
	Stdin         string            `json:"stdin"`
	Args          []string          `json:"args"`
	CompileTime   *float64          `json:"compile_timeout"` // milliseconds, as the next three
	RunTime       *float64          `json:"run_timeout"`
	CompileCPU    *float64          `json:"compile_cpu_time"`
	RunCPU        *float64          `json:"run_cpu_time"`
	CompileMemory *float64          `json:"compile_memory_limit"` // bytes; -1: the policy's
	RunMemory     *float64          `json:"run_memory_limit"`
}

type pistonFile struct {
	Name     string  `json:"name"`
	Content  *string `json:"content"`
	Encoding string  `json:"encoding"` // utf8, base64 or hex
}

// pistonStage is the result of a compiler or a program.
type pistonStage struct {
	Stdout   string  `json:"stdout"`
	Stderr   string  `json:"stderr"`
	Output   string  `json:"output"`
	Code     *int    `json:"code"`
	Signal   *string `json:"signal"`
	Message  *string `json:"message"`
	Status   *string `json:"status"`    // RE, SG, TO, OL or null
	CPUTime  float64 `json:"cpu_time"`  // milliseconds
	WallTime float64 `json:"wall_time"` // milliseconds
	Memory   int64   `json:"memory"`    // bytes
}

type pistonAnswer struct {
	Compile  *pistonStage `json:"compile,omitempty"`
	Run      *pistonStage `json:"run"`
	Language string       `json:"language"`
	Version  string       `json:"version"`
	Assay    *extra       `json:"assay"`
}

func (h *Handlers) execute(w http.ResponseWriter, r *http.Request) error {
	var req pistonRequest
	if err := body(w, r, web.MaxBody, &req); err != nil {
		return err
	}
	p, err := req.program()
	if text, ok := unfit(err); ok {
		return web.WriteJSON(w, http.StatusOK, pistonUnfit(&req, text))
	}
	if err != nil {
		return err
	}
	version := h.version(p.language)
	if !has(version, req.Version) {
		return job.Invalid("version", "%s-%.40s runtime is unknown; there is %s", p.language.Name, req.Version, version)
	}
	e, err := h.run(r, p, web.Arrived(r).Add(p.compile.Wall.D()+p.wall+pistonSlack))
	if err != nil {
		return err
	}
	if e.Outcome == job.SetupError { // Piston has no response for it
		return fmt.Errorf("%w: job %s: %s", job.ErrUnavailable, e.ID, e.Message)
	}
	return web.WriteJSON(w, http.StatusOK, pistonAnswerOf(e, p, version))
}

func (q *pistonRequest) program() (*program, error) {
	p := &program{endpoint: Piston, stdin: q.Stdin, args: q.Args, inputs: map[string]job.File{}, files: map[string]string{}}
	switch {
	case q.Language == "":
		return nil, job.Invalid("language", "is required as a string")
	case q.Version == "":
		return nil, job.Invalid("version", "is required as a string; * is any")
	}
	var err error
	if p.language, err = find("language", q.Language); err != nil {
		return nil, err
	}
	if !strings.HasSuffix(p.stdin, "\n") { // as Piston does
		p.stdin += "\n"
	}
	if err = checkText("stdin", p.stdin, job.MaxSpec); err != nil {
		return nil, err
	}
	if err = p.pistonFiles(q.Files); err != nil {
		return nil, err
	}
	return p, q.limit(p)
}

// limit sets the limits of the request.
func (q *pistonRequest) limit(p *program) error {
	compile, err := span("compile_timeout", q.CompileTime, time.Millisecond, pistonCompile)
	if err != nil {
		return err
	}
	if p.wall, err = span("run_timeout", q.RunTime, time.Millisecond, pistonRun); err != nil {
		return err
	}
	if p.cpu, err = span("run_cpu_time", q.RunCPU, time.Millisecond, 0); err != nil {
		return err
	}
	if _, err = span("compile_cpu_time", q.CompileCPU, time.Millisecond, 0); err != nil {
		return err
	}
	p.compile.Wall, p.compile.Memory = job.Duration(compile), size(q.CompileMemory, job.Byte)
	p.memory = size(q.RunMemory, job.Byte)
	p.raiseLimits()
	return nil
}

// pistonFiles decodes the files of a request. The first text file is the main file; other valid text files are sources,
// too.
func (p *program) pistonFiles(raw []json.RawMessage) error {
	if len(raw) == 0 {
		return job.Invalid("files", "is required as an array of at least one file")
	}
	for i := range raw {
		at := fmt.Sprintf("files[%d]", i)
		f := pistonFile{}
		if err := decode(raw[i], at, &f); err != nil {
			return err
		}
		if f.Content == nil {
			return job.Invalid(at+".content", "is required as a string")
		}
		if f.Name == "" {
			f.Name = fmt.Sprintf("file%d.code", i)
		}
		if err := p.pistonFile(at, &f); err != nil {
			return err
		}
	}
	if p.main == "" {
		return job.Invalid("files", "must include at least one utf8 encoded file")
	}
	return nil
}

func (p *program) pistonFile(at string, f *pistonFile) error {
	name, err := beneath(at+".name", f.Name)
	if err != nil {
		return err
	}
	content := []byte(*f.Content)
	switch f.Encoding {
	case "base64":
		content, err = base64.StdEncoding.DecodeString(*f.Content)
	case "hex":
		content, err = hex.DecodeString(*f.Content)
	}
	if err != nil {
		return job.Invalid(at+".content", "is not %s: %v", f.Encoding, err)
	}
	isText := f.Encoding != "base64" && f.Encoding != "hex"
	if isText && p.main == "" {
		name = named(p.language, name)
		p.main = name
		if len(content) == 0 {
			content = []byte("\n")
		}
	}
	_, source := p.files[name]
	_, input := p.inputs[name]
	if source || input {
		return job.Invalid(at+".name", "%.80q is there twice", name)
	}
	if isText && utf8.Valid(content) {
		p.files[name] = string(content)
		return checkSource(at+".content", string(content))
	}
	encoded := base64.StdEncoding.EncodeToString(content)
	p.inputs[name] = job.File{Base64: &encoded}
	return nil
}

// pistonUnfit returns the response for a program that did not run because its source is unfit.
func pistonUnfit(q *pistonRequest, text string) *pistonAnswer {
	code, status := 1, "RE"
	return &pistonAnswer{Language: q.Language, Version: q.Version, Assay: refusedExtra(text), Run: &pistonStage{Stderr: text, Output: text, Code: &code, Status: &status}}
}

// pistonAnswerOf returns the response for a result.
func pistonAnswerOf(e *programResult, p *program, version string) *pistonAnswer {
	out := &pistonAnswer{Language: p.language.Name, Version: version, Assay: e.extra()}
	if c := e.Compiled; c != nil {
		out.Compile = &pistonStage{
			Stdout: c.Stdout.Text, Stderr: c.Stderr.Text, Output: c.Stdout.Text + c.Stderr.Text,
			CPUTime: c.Usage.CPUMS, WallTime: wall(&c.Usage), Memory: c.Usage.MemoryPeakBytes,
		}
		as := &programResult{Result: job.Result{Outcome: c.Outcome, ExitCode: c.ExitCode}}
		out.Compile.end(as, e.Message)
	}
	if e.Outcome == job.CompileError {
		out.Run = out.Compile // as Piston does if nothing ran
		return out
	}
	out.Run = &pistonStage{
		Stdout: e.stdout, Stderr: e.stderr, Output: e.stdout + e.stderr,
		CPUTime: e.Usage.CPUMS, WallTime: wall(&e.Usage), Memory: e.Usage.MemoryPeakBytes,
	}
	out.Run.end(e, e.Message)
	return out
}

// end sets the exit code or the signal of a stage.
func (s *pistonStage) end(e *programResult, message string) {
	code, signal := e.exit()
	status := ""
	switch {
	case e.Outcome == job.TimedOut:
		status, signal = "TO", "SIGKILL"
	case e.Outcome == job.OutputLimit:
		status, signal = "OL", "SIGKILL"
	case signal != "":
		status = "SG"
	case code != 0:
		status = "RE"
	}
	if signal != "" {
		s.Signal = &signal
	} else {
		s.Code = &code
	}
	if status != "" {
		s.Status = &status
		if message != "" {
			s.Message = &message
		}
	}
}

// pistonRuntime is a row of GET /api/v2/runtimes.
type pistonRuntime struct {
	Language string   `json:"language"`
	Version  string   `json:"version"`
	Aliases  []string `json:"aliases"`
}

func (h *Handlers) runtimes(w http.ResponseWriter, _ *http.Request) error {
	all := []pistonRuntime{}
	for _, l := range language.All() {
		all = append(all, pistonRuntime{l.Name, h.version(&l), append([]string{}, l.Aliases...)})
	}
	return web.WriteJSON(w, http.StatusOK, all)
}
