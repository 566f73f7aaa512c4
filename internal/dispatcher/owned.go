package dispatcher

import (
	"bytes"
	"encoding/json"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/store"
)

// ownArtifacts refuses a result that names objects which its attempt did not store:
// whoever downloads the artifacts of a job must not be led to another one's. The
// tenant is not known here; the API looks at the whole key before it opens an object.
func ownArtifacts(f *store.Finish) error {
	if !bytes.Contains(f.Result, []byte(`"artifacts"`)) {
		return nil // most have none, and decoding costs
	}
	var res struct {
		Artifacts []struct {
			Object string `json:"object"`
		} `json:"artifacts"`
	}
	if err := json.Unmarshal(f.Result, &res); err != nil {
		return nil //nolint:nilerr // not a result: the store says so
	}
	for _, a := range res.Artifacts {
		if _, id, lease, ok := object.AttemptOf(a.Object); !ok || id != f.Job || lease != f.Lease {
			return job.Invalid("artifacts", "%q is no object of job %s under lease %d", a.Object, f.Job, f.Lease)
		}
	}
	return nil
}
