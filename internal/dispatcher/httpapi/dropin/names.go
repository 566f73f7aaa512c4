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

// workdir is the working directory, which has the program's files.
const workdir = "/workspace"

// beneath returns the clean form of a path in the working directory. It rejects other paths.
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

// fetched returns the absolute path of a file to return. As on other servers it may be any file of the sandbox: the
// sandbox has no files that the program must not read.
func fetched(field, name string) (string, error) {
	if path.IsAbs(name) && path.Clean(name) != "/" {
		return path.Clean(name), nil
	}
	clean, err := beneath(field, name)
	return path.Join(workdir, clean), err
}

// literal returns a glob that matches only the path name.
func literal(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// inputs decodes files in base64. Like SandboxFusion it omits files without content.
func inputs(field string, encoded map[string]json.RawMessage) (map[string]job.File, error) {
	out := make(map[string]job.File, len(encoded))
	for _, name := range slices.Sorted(maps.Keys(encoded)) { // sorted for deterministic errors
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
