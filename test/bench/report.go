package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"

	"github.com/assay-run/assay/pkg/policy"
)

// Report is a scenario's JSON object.
type Report map[string]any

// Noted adds the measured isolation, and why it is not the wanted one.
func (r Report) Noted(isolation policy.Isolation, note string) {
	r["isolation"] = isolation
	if note != "" {
		r["note"] = note
	}
}

// Write prints the report of a scenario, or returns an error that names the scenario.
func (r Report) Write(out io.Writer, name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r["scenario"], r["cores"] = name, runtime.NumCPU()
	return json.NewEncoder(out).Encode(r)
}
