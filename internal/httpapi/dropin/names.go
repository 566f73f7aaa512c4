package dropin

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// workdir is where programs find what comes with them.
const workdir = "/workspace"

// beneath returns the plain form of a path that lies beneath the working directory.
func beneath(field, name string) (string, error) {
	clean := path.Clean(name)
	switch {
	case name == "" || clean == ".":
		return "", job.Invalid(field, "%.80q names no file", name)
	case path.IsAbs(name):
		return "", job.Invalid(field, "%.80q must be relative: files lie beneath the working directory", name)
	case clean == ".." || strings.HasPrefix(clean, "../"):
		return "", job.Invalid(field, "%.80q leads out of the working directory", name)
	}
	return clean, nil
}

// fetched returns the absolute path of a file that is to be sent back. Other servers read any file of the sandbox; so
// may these, as the sandbox has nothing that is not the program's to read.
func fetched(field, name string) (string, error) {
	if path.IsAbs(name) && path.Clean(name) != "/" {
		return path.Clean(name), nil
	}
	clean, err := beneath(field, name)
	return path.Join(workdir, clean), err
}

// literal is a glob that matches a path and nothing else.
func literal(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// inputs reads files in base64. Those without contents are left out, as SandboxFusion does.
func inputs(field string, encoded map[string]json.RawMessage) (map[string]job.File, error) {
	out := make(map[string]job.File, len(encoded))
	for _, name := range slices.Sorted(maps.Keys(encoded)) { // so that the same request has the same error
		raw := encoded[name]
		if string(raw) == "null" {
			continue
		}
		at := fmt.Sprintf("%s[%.80q]", field, name)
		clean, err := beneath(at, name)
		if err != nil {
			return nil, err
		}
		content := new(string)
		if err := job.Decode(raw, at, content); err != nil {
			return nil, err
		}
		if _, err := base64.StdEncoding.DecodeString(*content); err != nil {
			return nil, job.Invalid(at, "is not base64: %v", err)
		}
		if _, twice := out[clean]; twice {
			return nil, job.Invalid(at, "is there twice, by different names")
		}
		out[clean] = job.File{Base64: content}
	}
	return out, nil
}
