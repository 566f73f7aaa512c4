package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/assay-run/assay/internal/httpapi/files"
	"github.com/assay-run/assay/internal/httpapi/web"
	"github.com/assay-run/assay/pkg/job"
)

// shown is how a result or a job is shown: all of it, or the fields that were asked for.
type shown struct {
	fields []string // nil: all
}

// The fields that may be asked for.
var (
	resultFields = job.FieldNames(job.Result{})
	jobFields    = job.FieldNames(job.Job{})
)

// shownParam reads ?fields=, names of fields at the top, separated by commas.
func shownParam(r *http.Request, names []string) (shown, error) {
	text := r.URL.Query().Get("fields")
	if text == "" {
		return shown{}, nil
	}
	var v shown
	for name := range strings.SplitSeq(text, ",") {
		if !slices.Contains(names, name) {
			if n := job.Nearest(name, names); n != "" {
				return v, job.Invalid("fields", "there is no field %.80q; did you mean %s?", name, n)
			}
			return v, job.Invalid("fields", "there is no field %.80q; there are %s", name, strings.Join(names, ", "))
		}
		v.fields = append(v.fields, name)
	}
	return v, nil
}

// member is one field of an object.
type member struct {
	name  string
	value json.RawMessage
}

// result shows a recorded result. The record says in which object an artifact is, which is
// ours; who reads it is told where the API serves it.
func (v shown) result(raw json.RawMessage) (json.RawMessage, error) {
	if v.fields == nil && !bytes.Contains(raw, []byte(`"artifacts":`)) {
		return raw, nil // most
	}
	all, err := members(raw)
	if err != nil {
		return nil, fmt.Errorf("decode a recorded result: %w", err)
	}
	var id job.ID
	for i, m := range all {
		switch m.name {
		case "id":
			err = json.Unmarshal(m.value, &id)
		case "artifacts":
			all[i].value, err = servedArtifacts(id, m.value)
		}
		if err != nil {
			return nil, fmt.Errorf("decode %s of a recorded result: %w", m.name, err)
		}
	}
	return v.join(all), nil
}

// writeResult answers with a recorded result.
func (v shown) writeResult(w http.ResponseWriter, raw json.RawMessage) error {
	raw, err := v.result(raw)
	if err != nil {
		return err
	}
	return web.WriteRaw(w, http.StatusOK, raw)
}

// job shows a job.
func (v shown) job(j *job.Job) (json.RawMessage, error) {
	if j.Result != nil {
		files.Served("jobs", j.ID, j.Result.Artifacts)
	}
	raw, err := json.Marshal(j)
	if err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	if v.fields == nil {
		return raw, nil
	}
	all, err := members(raw)
	if err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return v.join(all), nil
}

func servedArtifacts(id job.ID, raw json.RawMessage) (json.RawMessage, error) {
	var all []job.Artifact
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	files.Served("jobs", id, all)
	return json.Marshal(all)
}

// members returns the fields of an object in their order.
func members(raw json.RawMessage) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	var out []member
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: fmt.Sprint(name)}
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// join encodes the fields that are shown, in their order.
func (v shown) join(all []member) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for _, m := range all {
		if v.fields != nil && !slices.Contains(v.fields, m.name) {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", m.name, m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}
