package admit

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// cacheVersion is part of every cache key. Change it when the same program, inputs and policy lead to another record.
const cacheVersion = "assay cache 1\n"

// cacheKey returns the same key for jobs that would run alike: image, program, inputs, effective policy, and
// requirements of a worker. Names, labels, priority, retries and deadlines do not matter. A restricted key's label
// does, because the key must not see results of jobs without it. The key is nil for a job that allows no cached
// result.
func cacheKey(spec *job.Spec, p *policy.Policy, raw json.RawMessage, by Held) ([]byte, error) {
	if !spec.Cache {
		return nil, nil
	}
	if err := repeatable(p); err != nil {
		return nil, err
	}
	image := spec.Image
	if image == "" {
		image = job.DefaultImage
	}
	body, err := json.Marshal(struct { // map keys are sorted
		Image    string
		Program  job.Program
		Files    map[string]job.File
		Policy   json.RawMessage
		Requires map[string]string
		Pool     string `json:",omitempty"`
		Label    string `json:",omitempty"`
	}{image, spec.Program, spec.Files, raw, spec.Requires, spec.Pool, by.label()})
	if err != nil {
		return nil, fmt.Errorf("encode cache key: %w", err)
	}
	h := sha256.New()
	h.Write([]byte(cacheVersion))
	h.Write(body)
	return h.Sum(nil), nil
}

// repeatable rejects caching for jobs whose result depends on more than the key, or whose record another job cannot
// share.
func repeatable(p *policy.Policy) error {
	because := func(format string, args ...any) error {
		return job.Invalid("cache", format+"; leave cache out, or submit such jobs apart", args...)
	}
	switch {
	case p.Network.Mode != policy.NetworkNone:
		return because("a job with network %q is not repeatable: responses change", p.Network.Mode)
	case len(p.Env.Secrets) > 0:
		return because("a job with secrets is not repeatable: their values change and are not part of the key")
	case len(p.Packages) > 0:
		return because("a job with packages is not repeatable: each worker resolves them itself; use an image with the packages")
	case len(p.Callbacks.Allow) > 0:
		return because("a job with callbacks is not repeatable: responses change")
	case len(p.Artifacts.Paths) > 0:
		return because("a job with artifacts is not repeatable: its files are deleted with its record")
	}
	return nil
}
