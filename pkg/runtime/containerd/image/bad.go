package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// environmentMost is the most bytes of an image's environment, because every program receives all
// of it.
const environmentMost = 128 << 10

// ofTheLayers are prefixes of containerd's messages about malformed layers. They are only
// recognizable by text, because containerd's own process returns errors without types.
var ofTheLayers = []string{
	"archive/tar: ", "unexpected EOF", "wrong diff id calculated", "mismatched image rootfs and manifest layers",
	"no such file or directory", "not a directory", "is a directory", "file exists", "file name too long", "invalid argument",
	"invalid checksum", "magic number mismatch", "gzip: invalid", "zstd", "too many levels of symbolic links", "path escapes",
}

// ofTheHost are messages about problems of the host, which take precedence.
var ofTheHost = []string{
	"no space left on device", "disk quota exceeded", "input/output error", "read-only file system", "cannot allocate memory", "too many open files",
}

// unpackError classifies a failure to read or unpack an image: job.ErrInvalid if the image is
// malformed, and runtime.ErrImage if the cause is unknown, so that another worker tries. A
// containerd that does not respond is neither.
func unpackError(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	text := err.Error()
	says := func(list []string) bool {
		for _, s := range list {
			if strings.Contains(text, s) {
				return true
			}
		}
		return false
	}
	switch {
	case errors.Is(err, job.ErrInvalid) || errdefs.IsUnavailable(err) || errdefs.IsCanceled(err) || errdefs.IsDeadlineExceeded(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &syntax) || errors.As(err, &kind):
		return job.Invalid("image", "its manifest or its configuration is invalid: %v", err)
	case says(ofTheHost):
		return err
	case says(ofTheLayers):
		return job.Invalid("image", "its layers are invalid: %.500s", lastOf(text))
	}
	return fmt.Errorf("%w: it does not unpack: %w", runtime.ErrImage, err)
}

// temporary matches containerd's mount point during unpacking.
var temporary = regexp.MustCompile(`[^ "]*/containerd-mount[0-9]+`)

// unpacking reports whether a pull failed after the transfer.
func unpacking(err error) bool {
	text := err.Error()
	for _, s := range []string{"failed to extract layer", "wrong diff id calculated", "mismatched image rootfs", "unmarshal image config"} {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}

// lastOf returns the last part of a chain of errors without paths of this host.
func lastOf(text string) string {
	if _, rest, ok := strings.Cut(text, "mount callback failed on "); ok {
		_, text, _ = strings.Cut(rest, ": ")
	}
	return temporary.ReplaceAllString(text, "")
}

// absent returns the error for an image whose requested part is missing in containerd: it was just
// collected, or is not for this machine.
func (m *Store) absent(ctx context.Context, ref string, img client.Image, err error) error {
	now, getErr := m.client.GetImage(ctx, ref)
	if getErr != nil || now.Target().Digest != img.Target().Digest {
		return fmt.Errorf("%w: %w", ErrCollected, err)
	}
	return job.Invalid("image", "it has no variant for the architecture of this worker, or parts of it were not imported: %v", err)
}

// checkEnvironment rejects an environment that no program can have.
func checkEnvironment(env []string) error {
	size := 0
	for _, e := range env {
		size += len(e)
		if strings.ContainsRune(e, 0) {
			return job.Invalid("image", "its configuration has a variable with a NUL byte, %.80q", e)
		}
	}
	if size > environmentMost {
		return job.Invalid("image", "the environment of its configuration has %d bytes; at most %d", size, environmentMost)
	}
	return nil
}
