package dispatcher

import (
	"bytes"
	"encoding/json"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/store"
)

// ownArtifacts rejects a result that names objects of another job or attempt, with job.ErrInvalid. Else clients that
// download the artifacts or outputs of a job could get another job's. The tenant is unknown here: the API checks the
// whole key before it opens an object.
func ownArtifacts(f *store.Finish) error {
	if !mayName(f.Result) {
		return nil // most results name none; skip decoding
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
		return nil //nolint:nilerr // not a result: the store rejects it
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

// mayName reports whether a JSON result may have the key "object" as encoding/json matches it: in any case, or with
// escapes. It also returns true for the keys "stored" and "artifacts". It returns false for nearly all results of
// programs that store nothing: enforcement reports have "artifacts" only as a value.
func mayName(result []byte) bool {
	for _, sign := range []string{`\u`, `"stored":`, `"artifacts":`} {
		if bytes.Contains(result, []byte(sign)) {
			return true
		}
	}
	const key = `object"`
	for _, end := range []string{`t"`, `T"`} { // a fast search, with few hits
		for rest := result; ; {
			at := bytes.Index(rest, []byte(end))
			if at < 0 {
				break
			}
			at += len(end)
			if at >= len(key) && bytes.EqualFold(rest[at-len(key):at], []byte(key)) {
				return true
			}
			rest = rest[at:]
		}
	}
	return false
}
