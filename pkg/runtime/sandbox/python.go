package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/guest/python"
	"github.com/assay-run/assay/internal/boundedjson"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime/toll"
)

// Limits of a Python program's report about itself. The harness stays below them; they protect
// against programs that write to its descriptor.
const (
	maxPythonResult = 4 << 20
	maxVariables    = 1000
	maxShown        = 24
	maxText         = 64 << 10 // of a repr, a message or a traceback
)

// pythonResult is the document from the harness.
type pythonResult struct {
	Value     *job.Value              `json:"value"`
	Exception *job.ExceptionInfo      `json:"exception"`
	Variables map[string]job.Variable `json:"variables"`
	Display   []job.Display           `json:"display"`
	Order     [][2]int                `json:"order"`     // descriptor and bytes
	Violation string                  `json:"violation"` // of the import rules; then nothing was run
}

// importRules are the policy's rules for the harness, with the module that enforces them.
type importRules struct {
	policy.Imports
	Source string `json:"source"`
}

// rulesFor returns nil if the policy has no rules.
func rulesFor(p policy.Imports) *importRules {
	if !p.Any() {
		return nil
	}
	return &importRules{p, string(python.Imports)}
}

// pythonRequest is a request to the harness: to run a snippet, or to serve.
type pythonRequest struct {
	*job.Python
	Wall    float64         `json:"wall,omitempty"` // seconds, for a snippet
	Imports *importRules    `json:"imports,omitempty"`
	Wire    string          `json:"wire,omitempty"` // the decoder module for tagged variables
	Script  *script         `json:"script,omitempty"`
	Serve   *python.Service `json:"serve,omitempty"`
	Preload string          `json:"preload,omitempty"` // the source that a waiting interpreter runs instead
}

// snippetRequest returns the request for a snippet with the policy's wall time and import rules.
func snippetRequest(p *job.Python, limits *policy.Policy) *pythonRequest {
	r := &pythonRequest{Python: p, Wall: limits.Wall.D().Seconds(), Imports: rulesFor(limits.Imports)}
	if p.Tagged {
		r.Wire = string(python.Wire)
	}
	return r
}

// script is a runtime.Script for the harness.
type script struct {
	Path string   `json:"path"`
	Args []string `json:"args,omitempty"`
}

// scriptOf returns the attempt's script for the harness, its working directory and its input, or
// nil for a snippet.
func (a *Attempt) scriptOf() (told *script, dir string, stdin []byte) {
	if s := a.Script; s != nil {
		return &script{s.Path, s.Args}, s.Dir, s.Stdin
	}
	return nil, "", nil
}

// file returns the request as a file for the harness.
func (r *pythonRequest) file(uid int) (*os.File, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("python request: %w", err)
	}
	if len(body) > pipeSize {
		return ContentFile("request", body, uid)
	}
	// It fits into a pipe, which is cheaper than a file.
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("python request: %w", err)
	}
	_, err = unix.Write(fds[1], body)
	_ = unix.Close(fds[1])
	f := os.NewFile(uintptr(fds[0]), "request")
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("python request: %w", err)
	}
	return f, nil
}

// pipeSize is the least capacity of a pipe without a reader: a page, for a user with many pipes.
const pipeSize = 4096

// resultPipe collects the harness's result, at most maxPythonResult bytes. After more, the worker
// closes its end, so that further writes fail.
type resultPipe struct {
	ours, theirs *os.File
	toll         *toll.Meter // of the attempt, for charges
	done         chan []byte
}

func newResultPipe(uid int, m *toll.Meter) (*resultPipe, error) {
	r, w, err := pipe(uid)
	if err != nil {
		return nil, err
	}
	from, err := newPipeReader(r, m)
	if err != nil {
		return nil, errors.Join(err, r.Close(), w.Close())
	}
	p := &resultPipe{ours: r, theirs: w, toll: m, done: make(chan []byte, 1)}
	go func() {
		data, err := boundedjson.ReadAll(from, maxPythonResult, resultLimits)
		if errors.Is(err, boundedjson.ErrLimit) {
			data = nil         // not a result: discard it
			_ = p.ours.Close() // further writes fail, so that the program does not hang
		}
		p.done <- data
	}()
	return p, nil
}

// read returns the document after the program's end, or nil if it is missing or malformed.
func (p *resultPipe) read() *pythonResult {
	_ = p.ours.SetReadDeadline(time.Now().Add(drainTime))
	data := <-p.done
	if len(data) == 0 {
		return nil
	}
	var r *pythonResult
	p.toll.Measure(func() { r = decodeResult(data) })
	return r
}

func (p *resultPipe) close() {
	_ = p.theirs.Close()
	_ = p.ours.Close()
}

// resultLimits exceed all results of the harness.
var resultLimits = boundedjson.Limits{Values: 64 << 10, Depth: 100}

// decodeResult decodes a program's result, or returns nil.
func decodeResult(data []byte) *pythonResult {
	var r pythonResult
	if err := boundedjson.Unmarshal(data, &r, resultLimits); err != nil {
		return nil
	}
	r.clip()
	return &r
}

// clip cuts every text to its limit.
func (r *pythonResult) clip() {
	if v := r.Value; v != nil {
		v.Type, v.Repr = clipText(v.Type), clipText(v.Repr)
	}
	if e := r.Exception; e != nil {
		e.Type, e.Message, e.Traceback = clipText(e.Type), clipText(e.Message), clipText(e.Traceback)
	}
	if len(r.Display) > maxShown {
		r.Display = r.Display[:maxShown]
	}
	for i, name := range slices.Sorted(maps.Keys(r.Variables)) {
		v := r.Variables[name]
		delete(r.Variables, name)
		if i < maxVariables && len(name) <= 256 {
			r.Variables[name] = job.Variable{Type: clipText(v.Type), Repr: clipText(v.Repr)}
		}
	}
}

func clipText(s string) string { return job.Clip(s, maxText) }

// inOrder returns both streams in write order. It returns nil if order does not cover both streams,
// if only one was used, or if one is too large for memory.
func inOrder(order [][2]int, stdout, stderr job.Output) []job.Chunk {
	if stdout.Spill != nil || stderr.Spill != nil {
		return nil
	}
	rest := map[int]string{1: stdout.Text, 2: stderr.Text}
	names := map[int]string{1: "stdout", 2: "stderr"}
	for n, o := range map[int]job.Output{1: stdout, 2: stderr} {
		if o.Truncated || int64(len(rest[n])) != o.Bytes || o.Bytes == 0 {
			return nil
		}
	}
	var out []job.Chunk
	for _, o := range order {
		n, size := o[0], o[1]
		if size <= 0 || size > len(rest[n]) {
			return nil
		}
		text := rest[n][:size]
		if !utf8.ValidString(text) {
			return nil
		}
		out, rest[n] = append(out, job.Chunk{Stream: names[n], Text: text}), rest[n][size:]
	}
	if rest[1] != "" || rest[2] != "" {
		return nil
	}
	return out
}
