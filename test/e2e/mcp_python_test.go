//go:build mcp

package e2e

import (
	"flag"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

var mcpPython = flag.String("mcp.python", "python3", "interpreter that has the package mcp")

// The official Python client uses the tools, and each of its four canceled calls ended its job.
func TestPythonClientOfMCP(t *testing.T) {
	f := mcpFleet(t)
	cmd := exec.CommandContext(t.Context(), *mcpPython, "testdata/mcp_client.py", f.URL(), "key-a", filepath.Join(f.bin, "assay"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	eventually(t, "four jobs are canceled, and none runs", func() bool {
		canceled := 0
		for j, err := range f.api.Jobs(t.Context(), client.JobFilter{}) {
			if err != nil {
				t.Fatal(err)
			}
			if !j.State.Terminal() {
				return false
			}
			if j.Outcome == job.OutcomeCanceled {
				canceled++
			}
		}
		return canceled == 4
	})
}
