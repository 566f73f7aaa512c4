package dispatcher

import (
	"bytes"
	"encoding/json"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/store"
)

// ownArtifacts refuses a result that names objects which its attempt did not store:
// whoever downloads the artifacts of a job must not be led to another one's, nor whoever
// reads its outputs. The tenant is not known here; the API looks at the whole key before
// it opens an object.
func ownArtifacts(f *store.Finish) error {
	if !mayName(f.Result) {
		return nil // most name none, and decoding costs
	}
	type named struct {
		Object string `json:"object"`
	}
	type output struct {
		Stored *named `json:"stored"`
	}
	type outputs struct {
		Stdout output `json:"stdout"`
		Stderr output `json:"stderr"`
	}
	var res struct {
		outputs
		Steps     []outputs `json:"steps"`
		Artifacts []named   `json:"artifacts"`
	}
	if err := json.Unmarshal(f.Result, &res); err != nil {
		return nil //nolint:nilerr // not a result: the store says so
	}
	for _, o := range append(res.Steps, res.outputs) {
		for _, s := range []*named{o.Stdout.Stored, o.Stderr.Stored} {
			if s != nil {
				res.Artifacts = append(res.Artifacts, *s)
			}
		}
	}
	for _, a := range res.Artifacts {
		if _, id, lease, ok := object.AttemptOf(a.Object); !ok || id != f.Job || lease != f.Lease {
			return job.Invalid("artifacts", "%q is no object of job %s under lease %d", a.Object, f.Job, f.Lease)
		}
	}
	return nil
}

// mayName reports whether a result, in JSON, may have a key that encoding/json takes for "object", in letters of either case or
// written with an escape, or one of those that are to hold such a key. False for nearly all results of programs that
// store nothing: the report of enforcement has "artifacts" for a value.
func mayName(result []byte) bool {
	for _, sign := range []string{`\u`, `"stored":`, `"artifacts":`} {
		if bytes.Contains(result, []byte(sign)) {
			return true
		}
	}
	key := []byte(`object"`)
	for {
		quote := bytes.IndexByte(result, '"')
		if quote < 0 {
			return false
		}
		result = result[quote+1:]
		if len(result) >= len(key) && bytes.EqualFold(result[:len(key)], key) {
			return true
		}
	}
}
