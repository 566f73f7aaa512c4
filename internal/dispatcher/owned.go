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
	if !bytes.Contains(f.Result, []byte(`"artifacts"`)) && !bytes.Contains(f.Result, []byte(`"stored"`)) {
		return nil // most have none, and decoding costs
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
