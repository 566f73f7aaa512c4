package mcp

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assay-run/assay/pkg/job"
)

// File is a kept file.
type File struct {
	Path      string `json:"path" jsonschema:"where it was in the sandbox"`
	Bytes     int64  `json:"bytes" jsonschema:"its size in bytes"`
	MediaType string `json:"media_type"`
	URI       string `json:"uri,omitempty" jsonschema:"as a resource of this server"`
}

func fileOf(id job.ID, a job.Artifact) File {
	return File{a.Path, a.Bytes, a.MediaType, (&url.URL{Scheme: "assay", Host: "jobs", Path: "/" + string(id) + "/artifacts" + a.Path}).String()}
}

func (f File) link() *sdk.ResourceLink {
	return &sdk.ResourceLink{URI: f.URI, Name: path.Base(f.Path), MIMEType: f.MediaType, Size: &f.Bytes}
}

type listArgs struct {
	JobID string `json:"job_id" jsonschema:"id of a run"`
}

// Files are the kept files of a run.
type Files struct {
	Artifacts []File `json:"artifacts"`
}

// window selects the part to read.
type window struct {
	Offset int64 `json:"offset,omitempty" jsonschema:"first byte to read, from 0; default 0"`
	Limit  int64 `json:"limit,omitempty" jsonschema:"most bytes to read (1 to 1048576); default 32768"`
}

// Limits of one read, in bytes.
const (
	usualPart = 32 << 10
	maxPart   = 1 << 20
)

func (w window) size() int64 {
	if w.Limit == 0 {
		return usualPart
	}
	return w.Limit
}

var windowLimits = map[string]limit{"offset": {most: 1 << 50}, "limit": {least: 1, most: maxPart}}

type artifactArgs struct {
	JobID     string `json:"job_id,omitempty" jsonschema:"id of the run with the kept file; either this or session_id"`
	SessionID string `json:"session_id,omitempty" jsonschema:"id of a live session, to read any of its files"`
	Path      string `json:"path" jsonschema:"path in the sandbox; a relative one is in /workspace"`
	Encoding  string `json:"encoding,omitempty" jsonschema:"text, base64, or auto: text where it is UTF-8; default auto"`
	window
}

type outputArgs struct {
	JobID  string `json:"job_id" jsonschema:"id of a run"`
	Stream string `json:"stream,omitempty" jsonschema:"stdout or stderr; default stdout"`
	window
}

// Part is a part of a file or an output.
type Part struct {
	Data       string `json:"data" jsonschema:"the content, encoded as in encoding"`
	Encoding   string `json:"encoding" jsonschema:"text or base64"`
	Offset     int64  `json:"offset" jsonschema:"of its first byte"`
	Bytes      int64  `json:"bytes" jsonschema:"how many bytes it stands for"`
	NextOffset int64  `json:"next_offset,omitempty" jsonschema:"offset to read on from; absent at the end"`
}

func (t *tools) addFiles(s *sdk.Server) {
	reads := &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true}
	encoded := map[string]limit{"encoding": {oneOf: []any{"auto", "text", "base64"}}}
	streamed := map[string]limit{"stream": {oneOf: []any{"stdout", "stderr"}}}
	for name, l := range windowLimits {
		encoded[name], streamed[name] = l, l
	}
	add(s, &sdk.Tool{Name: "list_artifacts", Title: "List kept files", Annotations: reads,
		Description: "Lists the kept files of a run, as selected by its argument artifacts or by its policy."}, nil, t.list)
	add(s, &sdk.Tool{Name: "read_artifact", Title: "Read a file", Annotations: reads,
		Description: "Reads a part of a kept file of a run, or of any file of a live session."}, encoded, t.read)
	add(s, &sdk.Tool{Name: "read_output", Title: "Read all of an output", Annotations: reads,
		Description: "Reads a part of a run's output if its result has only the beginning and the end."}, streamed, t.output)
	s.AddResourceTemplate(&sdk.ResourceTemplate{Name: "artifact", Title: "A file that was kept of a run", URITemplate: "assay://jobs/{job}/artifacts/{+path}"}, t.resource)
}

func (t *tools) list(ctx context.Context, _ *sdk.CallToolRequest, a listArgs) (*sdk.CallToolResult, Files, error) {
	id, err := idOf("job_id", a.JobID)
	if err != nil {
		return nil, Files{}, err
	}
	all, err := t.Fleet.Artifacts(ctx, id)
	if err != nil {
		return nil, Files{}, err
	}
	out := Files{Artifacts: []File{}}
	for _, a := range all {
		out.Artifacts = append(out.Artifacts, fileOf(id, a))
	}
	return nil, out, nil
}

func (t *tools) read(ctx context.Context, _ *sdk.CallToolRequest, a artifactArgs) (*sdk.CallToolResult, Part, error) {
	if (a.JobID == "") == (a.SessionID == "") {
		return nil, Part{}, job.Invalid("job_id, session_id", "send one of them")
	}
	if a.SessionID != "" {
		return t.readSession(ctx, a)
	}
	id, err := idOf("job_id", a.JobID)
	if err != nil {
		return nil, Part{}, err
	}
	body, err := t.Fleet.Artifact(ctx, id, inWorkspace(a.Path))
	if err != nil {
		return nil, Part{}, err
	}
	defer body.Close()
	return partOf(body, a.window, a.Encoding)
}

func (t *tools) readSession(ctx context.Context, a artifactArgs) (*sdk.CallToolResult, Part, error) {
	id, err := idOf("session_id", a.SessionID)
	if err != nil {
		return nil, Part{}, err
	}
	data, err := t.Fleet.FileRange(ctx, id, inWorkspace(a.Path), a.Offset, a.size()+1)
	if err != nil {
		return nil, Part{}, err
	}
	n := min(int64(len(data)), a.size())
	return encode(data[:n], n < int64(len(data)), a.Offset, a.Encoding)
}

func (t *tools) output(ctx context.Context, _ *sdk.CallToolRequest, a outputArgs) (*sdk.CallToolResult, Part, error) {
	id, err := idOf("job_id", a.JobID)
	if err != nil {
		return nil, Part{}, err
	}
	if a.Stream == "" {
		a.Stream = "stdout"
	}
	body, err := t.Fleet.Output(ctx, id, a.Stream, -1)
	if err != nil {
		return nil, Part{}, err
	}
	defer body.Close()
	return partOf(body, a.window, "auto")
}

// partOf reads the requested part of r.
func partOf(r io.Reader, w window, encoding string) (*sdk.CallToolResult, Part, error) {
	data, more, err := part(r, w.Offset, w.size())
	if err != nil {
		return nil, Part{}, err
	}
	return encode(data, more, w.Offset, encoding)
}

// encode makes a Part from bytes. A character that does not fit is left for the next part.
func encode(data []byte, more bool, offset int64, encoding string) (*sdk.CallToolResult, Part, error) {
	text := string(data)
	if short := whole(text); more && short != "" {
		text = short
	}
	p := Part{Data: text, Encoding: "text", Offset: offset, Bytes: int64(len(text))}
	switch valid := utf8.ValidString(text); {
	case encoding == "base64" || !valid && encoding != "text":
		p.Data, p.Encoding, p.Bytes = base64.StdEncoding.EncodeToString(data), "base64", int64(len(data))
	case !valid:
		p.Data = strings.ToValidUTF8(text, "\uFFFD")
	}
	if more {
		p.NextOffset = offset + p.Bytes
	}
	return nil, p, nil
}

// resource reads a whole kept file as a resource.
func (t *tools) resource(ctx context.Context, rq *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	ctx, stop := whileWanted(ctx)
	defer stop()
	id, file, ok := strings.Cut(strings.TrimPrefix(rq.Params.URI, "assay://jobs/"), "/artifacts/")
	file, err := url.PathUnescape(file)
	if parsed, bad := job.ParseID(id); ok && err == nil && bad == nil {
		return t.readStored(ctx, rq.Params.URI, parsed, "/"+file)
	}
	return nil, sdk.ResourceNotFoundError(rq.Params.URI)
}

// readStored reads a kept file of at most maxPart bytes.
func (t *tools) readStored(ctx context.Context, uri string, id job.ID, file string) (*sdk.ReadResourceResult, error) {
	body, err := t.Fleet.Artifact(ctx, id, file)
	if err != nil {
		return nil, advised(err)
	}
	defer body.Close()
	data, more, err := part(body, 0, maxPart)
	if err != nil {
		return nil, advised(err)
	}
	if more {
		return nil, fmt.Errorf("%w: %s has more than %d bytes; the tool read_artifact reads it in parts", job.ErrTooLarge, file, maxPart)
	}
	c := &sdk.ResourceContents{URI: uri}
	if utf8.Valid(data) {
		c.Text = string(data)
	} else {
		c.Blob = data
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{c}}, nil
}
