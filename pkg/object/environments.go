package object

import (
	"context"
	"io"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// EnvironmentPrefix is what the keys of all environments of packages begin with.
const EnvironmentPrefix = "environments/"

// EnvironmentKey returns the object path of the environment that some worker has built:
// name is that of what was asked for, 64 lower-case hex digits, and digest says what came
// of it ("sha256:…"). Every worker can write there, so whoever reads it has to find out
// whether it is that. The error wraps job.ErrInvalid.
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

// IsEnvironment reports whether EnvironmentKey has made a key. A tenant's name may begin as
// its keys do.
func IsEnvironment(key string) bool {
	parts := strings.Split(key, "/")
	if len(parts) != 4 {
		return false
	}
	made, err := EnvironmentKey(parts[2], "sha256:"+parts[3])
	return err == nil && made == key
}

func isSum(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }

// GetEnvironment opens an environment, which is as young again as one that is stored now.
// The error wraps job.ErrNotFound if it is not there.
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

// PutEnvironment stores what write writes as an environment, unless it is there: then it is
// made young again, or written anew if it is to be replaced. An error of write stores nothing.
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
	_ = r.CloseWithError(io.ErrClosedPipe) // ends a write that nobody reads
	<-written
	return err
}
