package registry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteserrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// refusal is the reason why this worker does not pull an image, as shown to tenants.
type refusal string

func (r refusal) Error() string { return string(r) }

// errCredentials means that the operator's file of credentials is unusable.
var errCredentials = errors.New("the credentials of this worker for registries cannot be read")

// errNotTaken means that a registry rejected the operator's credentials.
var errNotTaken = errors.New("its registry rejects the credentials of this worker")

// isUnauthorized reports whether a registry requires different credentials, or any.
func isUnauthorized(err error) bool {
	var status remoteserrors.ErrUnexpectedStatus
	return errdefs.IsUnauthorized(err) || errdefs.IsPermissionDenied(err) || errors.Is(err, docker.ErrInvalidAuthorization) ||
		errors.As(err, &status) && (status.StatusCode == http.StatusUnauthorized || status.StatusCode == http.StatusForbidden)
}

// Refused classifies a failed pull of ref. It returns job.ErrInvalid if the registry lacks or
// denies the image, or this worker rejects it. It returns runtime.ErrImage if the operator's
// credentials are unusable. It returns nil for other errors.
func Refused(ref string, err error) error {
	var dns *net.DNSError
	var no refusal
	switch {
	case errors.Is(err, errCredentials):
		return fmt.Errorf("%w: %w", runtime.ErrImage, errCredentials)
	case errors.As(err, &no):
		return job.Invalid("image", "%s is not pulled: %s", ref, no)
	case errdefs.IsNotFound(err):
		return job.Invalid("image", "the registry has no %s", ref)
	case errors.Is(err, errNotTaken):
		return fmt.Errorf("%w: %w", runtime.ErrImage, errNotTaken)
	case isUnauthorized(err):
		return job.Invalid("image", "the registry rejects the pull of %s", ref)
	case errors.As(err, &dns) && dns.IsNotFound:
		return job.Invalid("image", "the registry of %s has no address", ref)
	}
	return nil
}

// Trouble describes a temporary problem with a registry for tenants.
func Trouble(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	var t interface{ Timeout() bool }
	switch {
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout():
		return "its registry did not answer in time"
	case errors.As(err, &dns):
		return "its registry could not be looked up"
	case errors.As(err, &op):
		return "its registry is unreachable"
	}
	return "its registry gave no usable answer"
}
