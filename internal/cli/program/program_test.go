package program

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

// TestRead checks that a binary of this host becomes a command of the image, and that a file that is not UTF-8 is
// sent.
func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{"elf": "\x7fELF…", "latin": "#!/bin/dash\n\xe4"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"elf":   `{"command":{"argv":["` + dir + `/elf"]}}`,
		"latin": `{"command":{"argv":["/bin/dash","/workspace/latin"]}}`,
	} {
		var s job.Spec
		if err := (Named{File: filepath.Join(dir, name)}).Read(strings.NewReader(""), &s); err != nil {
			t.Fatal(err)
		}
		if got, _ := json.Marshal(s.Program); string(got) != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if f, ok := s.Files["/workspace/latin"]; name == "latin" && (!ok || f.Base64 == nil) {
			t.Errorf("%s: files %v", name, s.Files)
		}
	}
}

func TestWithIsolation(t *testing.T) {
	t.Parallel()
	unknown := errors.New("there is none")
	stored := func(_ context.Context, name string) (json.RawMessage, error) {
		if name != "small" {
			return nil, unknown
		}
		return json.RawMessage(`{"memory":"64Mi"}`), nil
	}
	for policy, want := range map[string]string{
		"": `{"isolation":"task"}`, `{"wall":"1s"}`: `{"isolation":"task","wall":"1s"}`, `"small"`: `{"isolation":"task","memory":"64Mi"}`,
	} {
		if got, err := WithIsolation(t.Context(), stored, json.RawMessage(policy), "task"); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", policy, got, err)
		}
	}
	if _, err := WithIsolation(t.Context(), stored, json.RawMessage(`"large"`), "task"); !errors.Is(err, unknown) {
		t.Error(err)
	}
	if _, err := WithIsolation(t.Context(), stored, json.RawMessage(`[]`), "task"); err == nil {
		t.Error("a policy that is no object was taken")
	}
}
