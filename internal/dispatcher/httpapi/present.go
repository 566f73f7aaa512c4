package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/assay-run/assay/internal/dispatcher/httpapi/files"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/pkg/job"
)

// fieldSelection selects the fields of a result or a job for the response.
type fieldSelection struct {
	fields web.Fields // nil for all
}

// Fields that a client may select.
var (
	resultFields = job.FieldNames(job.Result{})
	jobFields    = job.FieldNames(job.Job{})
)

// parseFields reads ?fields=.
func parseFields(r *http.Request, names []string) (fieldSelection, error) {
	f, err := web.ReadFields(r, names)
	return fieldSelection{f}, err
}

// result returns a recorded result for the client. The record has internal object names of artifacts; result replaces
// them by API addresses.
func (v fieldSelection) result(raw json.RawMessage) (json.RawMessage, error) {
	if v.fields == nil && !bytes.Contains(raw, []byte(`"artifacts":`)) {
		return raw, nil // the usual case
	}
	all, err := web.Members(raw)
	if err != nil {
		return nil, fmt.Errorf("decode a recorded result: %w", err)
	}
	var id job.ID
	for i, m := range all {
		switch m.Name {
		case "id":
			err = json.Unmarshal(m.Value, &id)
		case "artifacts":
			all[i].Value, err = servedArtifacts(id, m.Value)
		}
		if err != nil {
			return nil, fmt.Errorf("decode %s of a recorded result: %w", m.Name, err)
		}
	}
	return v.fields.Join(all), nil
}

// writeResult responds with a recorded result, or with 304 if the client has it.
func (v fieldSelection) writeResult(w http.ResponseWriter, r *http.Request, raw json.RawMessage) error {
	raw, err := v.result(raw)
	if err != nil {
		return err
	}
	return web.WriteTagged(w, r, raw)
}

// job returns a job for the client.
func (v fieldSelection) job(j *job.Job) (json.RawMessage, error) {
	if j.Result != nil {
		files.Served("jobs", j.ID, j.Result.Artifacts)
	}
	return v.fields.Of(j)
}

func servedArtifacts(id job.ID, raw json.RawMessage) (json.RawMessage, error) {
	var all []job.Artifact
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	files.Served("jobs", id, all)
	return json.Marshal(all)
}
