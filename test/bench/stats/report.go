package stats

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"

	"github.com/assay-run/assay/pkg/policy"
)

// Report is a scenario's JSON object.
type Report map[string]any

// Noted says in which isolation it was measured, and why it was another one than wanted.
func (r Report) Noted(isolation policy.Isolation, note string) {
	r["isolation"] = isolation
	if note != "" {
		r["note"] = note
	}
}

// Write prints what a scenario reports, or says which one failed.
func (r Report) Write(out io.Writer, name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r["scenario"], r["cores"] = name, runtime.NumCPU()
	return json.NewEncoder(out).Encode(r)
}
