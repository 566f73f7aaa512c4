package dispatcher_test

import (
	"context"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/dispatcher"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/store"
)

// known reveals one value for every job.
type known struct{}

func (known) Reveal(_ context.Context, claimed []store.Claimed) (map[job.ID]queue.Secrets, error) {
	out := map[job.ID]queue.Secrets{}
	for _, c := range claimed {
		if c.Lease != 0 {
			out[c.Job] = queue.Secrets{"TOKEN": "s3cret!"}
		}
	}
	return out, nil
}

// Secrets are in the answer to a claim that won, and in no other.
func TestSecretsTravelWithTheClaim(t *testing.T) {
	f := newFleet(t)
	f.start(dispatcher.Config{Secrets: known{}}, nil, nil)
	_, ids := f.submit(1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	control := f.connect()
	for {
		reply, err := control.Claim(ctx, queue.ClaimRequest{Worker: "w", Refs: []store.Ref{{Job: ids[0], Generation: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		if reply.Claimed[0].Lease == 0 { // not dispatched yet
			if len(reply.Secrets) != 0 {
				t.Fatalf("a claim that lost was told %d", len(reply.Secrets))
			}
			continue
		}
		if got := string(reply.Secrets[ids[0]]["TOKEN"]); got != "s3cret!" {
			t.Errorf("told %q", got)
		}
		return
	}
}
