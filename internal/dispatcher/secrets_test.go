package dispatcher_test

import (
	"context"
	"testing"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// known reveals one value for every job.
type known struct{}

func (known) Reveal(_ context.Context, claimed []store.Claimed) (map[job.ID]control.Secrets, error) {
	out := map[job.ID]control.Secrets{}
	for _, c := range claimed {
		if c.Lease != 0 {
			out[c.Job] = control.Secrets{"TOKEN": "s3cret!"}
		}
	}
	return out, nil
}

// TestSecretsTravelWithTheClaim checks that secrets are only in the answer to a successful claim.
func TestSecretsTravelWithTheClaim(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	cfg := quick
	cfg.Secrets = known{}
	f.start(cfg, nil, nil)
	j := newJob()
	_, dispatched, err := f.store.SubmitJob(t.Context(), j, store.Idempotency{}, 100)
	if err != nil || dispatched == nil {
		t.Fatalf("dispatch %v, error %v", dispatched, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	line := f.connect()
	for _, c := range []struct {
		generation job.Generation
		want       string
	}{{dispatched.Generation + 1, ""}, {dispatched.Generation, "s3cret!"}} {
		req := control.ClaimRequest{Worker: "w", Refs: []store.Ref{{Job: j.ID, Generation: c.generation}}}
		reply, err := insist(ctx, func() (control.ClaimReply, error) { return line.Claim(ctx, req) })
		if err != nil {
			t.Fatal(err)
		}
		if got := string(reply.Secrets[j.ID]["TOKEN"]); got != c.want || (reply.Claimed[0].Lease == 0) != (c.want == "") {
			t.Errorf("generation %d: told %q under lease %d, want %q", c.generation, got, reply.Claimed[0].Lease, c.want)
		}
	}
}
