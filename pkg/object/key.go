package object

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// Limits of a key. A file name has at most 255 bytes, including the temporary suffix of a write. An
// S3 key has at most 1024.
const (
	maxSegment = 200
	maxKey     = 900
)

// ArtifactKey returns the object path of a file of one attempt: <tenant>/<job>/<lease>/<path>. name
// is the absolute path inside the sandbox and may hold any byte except NUL. Different names have
// different keys, and no name leads out of the attempt's prefix. The error wraps job.ErrInvalid.
func ArtifactKey(tenant string, id job.ID, lease job.Lease, name string) (string, error) {
	if !strings.HasPrefix(name, "/") || path.Clean(name) != name || name == "/" {
		return "", job.Invalid("artifact", "%q must be a clean absolute path", name)
	}
	if strings.ContainsRune(name, 0) {
		return "", job.Invalid("artifact", "%q has a NUL byte", name)
	}
	prefix, err := AttemptPrefix(tenant, id, lease)
	if err != nil {
		return "", err
	}
	segments := strings.Split(name[1:], "/")
	for i, s := range segments {
		segments[i] = escape(s)
	}
	rel := strings.Join(segments, "/")
	if len(prefix)+len(rel) > maxKey {
		rel = "~" + digest(name)
	}
	return prefix + rel, nil
}

// WholeOutput is the step of an OutputKey for the whole program.
const WholeOutput = -1

// OutputKey returns the object path of one attempt's output to a stream, in one step or as a whole
// (WholeOutput). It cannot clash with an artifact: artifact names start with ~ only before a
// digest.
func OutputKey(tenant string, id job.ID, lease job.Lease, stream string, step int) (string, error) {
	prefix, err := AttemptPrefix(tenant, id, lease)
	switch {
	case err != nil:
		return "", err
	case stream != "stdout" && stream != "stderr":
		return "", job.Invalid("stream", "%.40q is neither stdout nor stderr", stream)
	case step == WholeOutput:
		return prefix + "~" + stream, nil
	case step < 0 || step >= job.MaxSteps:
		return "", job.Invalid("step", "%d must be 0 to %d", step, job.MaxSteps-1)
	}
	return prefix + "~" + stream + "." + strconv.Itoa(step), nil
}

// FirstExport is the lease of the files of a session's first export. The lease before it holds the
// list of the current export: see ExportKey.
const FirstExport job.Lease = 2

// ExportKey returns the object path of the list of a session's latest export.
func ExportKey(tenant string, id job.ID) (string, error) {
	prefix, err := AttemptPrefix(tenant, id, FirstExport-1)
	return prefix + "~export", err
}

// AttemptPrefix returns the prefix, with a final slash, of all objects of one attempt.
func AttemptPrefix(tenant string, id job.ID, lease job.Lease) (string, error) {
	if tenant == "" {
		return "", job.Invalid("tenant", "must not be empty")
	}
	if _, err := job.ParseID(string(id)); err != nil {
		return "", err
	}
	if lease <= 0 {
		return "", job.Invalid("lease", "%d is not a lease", lease)
	}
	return escape(tenant) + "/" + string(id) + "/" + strconv.FormatInt(int64(lease), 10) + "/", nil
}

// JobPrefix returns the prefix, with a final slash, of all objects of all attempts of a job.
func JobPrefix(tenant string, id job.ID) (string, error) {
	first, err := AttemptPrefix(tenant, id, 1)
	return strings.TrimSuffix(first, "1/"), err
}

// TenantPrefixes returns the prefixes, each with a final slash, of all objects of a tenant.
func TenantPrefixes(tenant string) []string {
	return []string{escape(tenant) + "/", BlobPrefix + escape(tenant) + "/"}
}

// AttemptOf returns the attempt that owns key, and the prefix of all its objects. It returns false
// for keys that ArtifactKey did not make, such as a blob's.
func AttemptOf(key string) (prefix string, id job.ID, lease job.Lease, ok bool) {
	s := strings.SplitN(key, "/", 4)
	if len(s) < 4 {
		return "", "", 0, false
	}
	id, err := job.ParseID(s[1])
	if err != nil {
		return "", "", 0, false
	}
	n, err := strconv.ParseInt(s[2], 10, 64)
	prefix = strings.Join(s[:3], "/") + "/"
	if err != nil || n <= 0 || prefix != s[0]+"/"+string(id)+"/"+strconv.FormatInt(n, 10)+"/" {
		return "", "", 0, false
	}
	return prefix, id, job.Lease(n), true
}

// escape makes one path segment safe for every store: short, percent-encoded ASCII, and never a
// reserved name.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	out := b.String()
	switch {
	case strings.Trim(out, ".") == "": // "." and ".." are directories
		out = strings.ReplaceAll(out, ".", "%2E")
	case strings.HasSuffix(out, ".attrs"), strings.HasSuffix(out, tempSuffix): // reserved by the file store
		dot := strings.LastIndexByte(out, '.')
		out = out[:dot] + "%2E" + out[dot+1:]
	}
	if len(out) > maxSegment {
		return out[:maxSegment/2] + "~" + digest(s) // plain names have no '~', so this cannot clash
	}
	return out
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		c == '.' || c == '_' || c == '-' || c == '+' || c == '='
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// checkKey rejects keys that this package did not build. It is the last defence against a path that
// leaves the store.
func checkKey(key string) error {
	if key == "" || len(key) > maxKey+maxSegment {
		return job.Invalid("object", "key of %d bytes", len(key))
	}
	for s := range strings.SplitSeq(key, "/") {
		if s == "" || strings.Trim(s, ".") == "" {
			return job.Invalid("object", "key %q is not clean", key)
		}
	}
	for i := range len(key) {
		if c := key[i]; !plain(c) && c != '/' && c != '%' && c != '~' {
			return job.Invalid("object", "key %q has the byte %#02x", key, c)
		}
	}
	return nil
}

// tombstonePrefix begins the keys of tombstones: notes about erased objects and revoked keys. No tenant's
// objects have it, because names of tenants have no dot.
const tombstonePrefix = "fleet.gone/"

// TombstoneKey returns the object path of the tombstone of an object of a kind, such as a key.
func TombstoneKey(kind string, id job.ID) (string, error) {
	if _, err := job.ParseID(string(id)); err != nil {
		return "", err
	}
	return tombstonePrefix + escape(kind) + "/" + string(id), nil
}

// TombstonePrefix returns the prefix, ending in a slash, of the tombstones of a kind.
func TombstonePrefix(kind string) string { return tombstonePrefix + escape(kind) + "/" }
