package transfer

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
)

// answering is a dispatcher that answers for environments.
type answering struct {
	reply control.EnvironmentReply
	err   error
	heard []control.EnvironmentRequest
}

func (a *answering) Environment(_ context.Context, r control.EnvironmentRequest) (control.EnvironmentReply, error) {
	a.heard = append(a.heard, r)
	return a.reply, a.err
}

// A worker reports an environment that it has built and stores it, unless environments are not
// shared or no dispatcher supports that.
func TestEnvironmentsAreOffered(t *testing.T) {
	t.Parallel()
	name, digest := strings.Repeat("ab", 32), "sha256:"+strings.Repeat("0f", 32)
	for what, c := range map[string]struct {
		dispatcher answering
		stored     bool
	}{
		"shared":     {answering{}, true},
		"not shared": {answering{reply: control.EnvironmentReply{Off: true}}, false},
		"older":      {answering{err: job.ErrUnavailable}, false},
	} {
		objects, err := object.Open(t.Context(), "file://"+t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer objects.Close()
		e := &Environments{Worker: "w", Control: &c.dispatcher, Objects: objects}
		err = e.Offer(t.Context(), name, digest, false, func(w io.Writer) error { _, err := io.WriteString(w, "packed"); return err })
		if !errors.Is(err, c.dispatcher.err) || (err == nil) != (c.dispatcher.err == nil) {
			t.Errorf("%s: offer: %v", what, err)
		}
		want := control.EnvironmentRequest{Worker: "w", Name: name, Digest: digest}
		if len(c.dispatcher.heard) != 1 || c.dispatcher.heard[0] != want {
			t.Errorf("%s: stated %+v, want %+v", what, c.dispatcher.heard, want)
		}
		r, err := e.Open(t.Context(), name, digest)
		if (err == nil) != c.stored || err != nil && !errors.Is(err, job.ErrNotFound) {
			t.Errorf("%s: stored: %v, want %v", what, err, c.stored)
		}
		if err == nil {
			if text, err := io.ReadAll(r); err != nil || string(text) != "packed" || r.Close() != nil {
				t.Errorf("%s: %q, %v", what, text, err)
			}
		}
		c.dispatcher.reply.Digest = digest
		if got, err := e.Find(t.Context(), name); !errors.Is(err, c.dispatcher.err) || err == nil && got != digest {
			t.Errorf("%s: find: %q, %v", what, got, err)
		}
		if last := c.dispatcher.heard[len(c.dispatcher.heard)-1]; last.Digest != "" {
			t.Errorf("%s: asked by stating %+v", what, last)
		}
	}
}
