package object

import (
	"context"
	"io"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// EnvironmentPrefix is the prefix of the keys of all package environments.
const EnvironmentPrefix = "environments/"

// EnvironmentKey returns the object path of an environment that a worker built. name is the hash of
// the request, 64 lower-case hex digits; digest is the hash of the result ("sha256:…"). Every
// worker can write there, so a reader must verify the content. The error wraps job.ErrInvalid.
func EnvironmentKey(name, digest string) (string, error) {
	if !isSum(name) {
		return "", job.Invalid("environment", "%.80q must be 64 lower-case hex digits", name)
	}
	sum, ok := strings.CutPrefix(digest, "sha256:")
	if !ok || !isSum(sum) {
		return "", job.Invalid("environment", "%.80q must be sha256: and 64 lower-case hex digits", digest)
	}
	return EnvironmentPrefix + name[:2] + "/" + name + "/" + sum, nil
}

// IsEnvironment reports whether EnvironmentKey made the key. A tenant's name may start with the
// same prefix.
func IsEnvironment(key string) bool {
	parts := strings.Split(key, "/")
	if len(parts) != 4 {
		return false
	}
	made, err := EnvironmentKey(parts[2], "sha256:"+parts[3])
	return err == nil && made == key
}

func isSum(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }

// GetEnvironment opens an environment and renews its age. The error wraps job.ErrNotFound if it
// does not exist.
func (s *Store) GetEnvironment(ctx context.Context, name, digest string) (io.ReadCloser, error) {
	key, err := EnvironmentKey(name, digest)
	if err != nil {
		return nil, err
	}
	have, err := s.Stat(ctx, key)
	if err == nil {
		_, err = s.refresh(ctx, have)
	}
	if err != nil {
		return nil, err
	}
	r, _, err := s.Get(ctx, key)
	return r, err
}

// PutEnvironment stores the output of write as an environment. If it exists already, PutEnvironment
// renews its age, or rewrites it if replace is set. After an error of write it stores nothing.
func (s *Store) PutEnvironment(ctx context.Context, name, digest string, replace bool, write func(io.Writer) error) error {
	key, err := EnvironmentKey(name, digest)
	if err != nil {
		return err
	}
	if have, err := s.Stat(ctx, key); err == nil && !replace {
		if _, err := s.refresh(ctx, have); err == nil {
			return nil
		}
	}
	r, w := io.Pipe()
	written := make(chan struct{})
	go func() {
		defer close(written)
		_ = w.CloseWithError(write(w))
	}()
	_, err = s.Put(ctx, key, r)
	_ = r.CloseWithError(io.ErrClosedPipe) // ends a write whose reader is gone
	<-written
	return err
}
