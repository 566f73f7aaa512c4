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

// refusal says why this worker does not pull an image. It is all that a tenant reads.
type refusal string

func (r refusal) Error() string { return string(r) }

// errCredentials says that the operator's file of credentials is no use now.
var errCredentials = errors.New("the credentials of this worker for registries cannot be read")

// errNotTaken says that a registry let nobody in who was told the operator's credentials.
var errNotTaken = errors.New("its registry does not take the credentials of this worker")

// notLetIn reports whether a registry asks for other credentials, or for some.
func notLetIn(err error) bool {
	var status remoteserrors.ErrUnexpectedStatus
	return errdefs.IsUnauthorized(err) || errdefs.IsPermissionDenied(err) || errors.Is(err, docker.ErrInvalidAuthorization) ||
		errors.As(err, &status) && (status.StatusCode == http.StatusUnauthorized || status.StatusCode == http.StatusForbidden)
}

// Refused tells whose trouble it is that ref is not pulled, if that was said: job.ErrInvalid
// if the registry has no such image or does not give it, or this worker does not take it,
// runtime.ErrImage if the operator's credentials are no use. It is nil for every other err.
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
	case notLetIn(err):
		return job.Invalid("image", "the registry does not let us pull %s", ref)
	case errors.As(err, &dns) && dns.IsNotFound:
		return job.Invalid("image", "there is no registry to pull %s from: it has no address", ref)
	}
	return nil
}

// Trouble is what a tenant reads about a registry that could not be used now.
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
