package jetstream

import (
	"errors"
	"regexp"
	"testing"

	"pgregory.net/rapid"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

func TestSubjectRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := store.Dispatch{
			Ref:  store.Ref{Job: job.NewID(), Generation: job.Generation(rapid.Int32Range(1, 1<<31-1).Draw(t, "generation"))},
			Pool: rapid.String().Draw(t, "pool"),
		}
		ref, err := parseRef(subject(d))
		if err != nil {
			t.Fatal(err)
		}
		if ref != d.Ref {
			t.Fatalf("got %v, want %v", ref, d.Ref)
		}
	})
}

func TestTokenIsOneWordAndUnique(t *testing.T) {
	t.Parallel()
	word := regexp.MustCompile(`^[A-Za-z0-9_=-]+$`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		if !word.MatchString(token(a)) {
			t.Fatalf("token(%q) = %q", a, token(a))
		}
		if a != b && token(a) == token(b) {
			t.Fatalf("%q and %q share the token %q", a, b, token(a))
		}
	})
}

func TestParseRefRefuses(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "jobs", "jobs.p.l.x.1", "jobs.p.l.01932c07-8f6a-7c3e-9d2b-5a1f0e4c7b88",
		"jobs.p.l.01932c07-8f6a-7c3e-9d2b-5a1f0e4c7b88.x", "jobs.p.l.01932c07-8f6a-7c3e-9d2b-5a1f0e4c7b88.99999999999",
	} {
		if ref, err := parseRef(s); !errors.Is(err, job.ErrInvalid) {
			t.Errorf("parseRef(%q) = %v, %v; want an invalid error", s, ref, err)
		}
	}
}

// TestLiteral checks that a foreign name is published only below the prefix, and only if no part of it is a
// wildcard or token separator of NATS.
func TestLiteral(t *testing.T) {
	t.Parallel()
	for subject, want := range map[string]bool{
		"_INBOX.w.a.x": true, "_INBOX.w.a.x.y-1_=2A": true,
		"": false, "_INBOX.w.a": false, "_INBOX.w.a.": false, "_INBOX.w.ab.x": false, "x._INBOX.w.a.x": false,
		"_INBOX.w.a.*": false, "_INBOX.w.a.>": false, "_INBOX.w.a.x.*.y": false, "_INBOX.w.a..x": false, "_INBOX.w.a.x.": false,
		"_INBOX.w.a.x y": false, "_INBOX.w.a.x\ty": false, "_INBOX.w.a.x\r\nPUB y 0\r\n": false, "_INBOX.w.a.é": false,
	} {
		if got := literal(subject, "_INBOX.w.a."); got != want {
			t.Errorf("%q: %v", subject, got)
		}
	}
}

// TestOfConsumer: receipts go where deliveries of the one consumer are answered.
func TestOfConsumer(t *testing.T) {
	t.Parallel()
	for subject, want := range map[string]bool{
		"$JS.ACK.JOBS.pool-a.1.2.3.4.5":               true,
		"$JS.ACK._.acc.JOBS.pool-a.1.2.3.4.5":         true,
		"$JS.ACK._.acc.JOBS.pool-a.1.2.3.4.5.ab":      true,
		"$JS.ACK.JOBS.pool-b.1.2.3.4.5":               false,
		"$JS.ACK.OTHER.pool-a.1.2.3.4.5":              false,
		"$JS.ACK._.acc.JOBS.pool-b.1.2.3.4.5":         false,
		"$JS.ACK.JOBS.pool-a.x.y.JOBS.pool-b.1":       false,
		"$JS.ACK.JOBS.pool-b.JOBS.pool-a.1.2.3.4.5":   false, // a consumer named JOBS.pool-a's, or pool-b's
		"$JS.ACK.JOBS.pool-a.JOBS.pool-b.1.2.3.4.5":   false,
		"$JS.ACK.JOBS.pool-b.JOBS.pool-a.1.2.3.4.5.6": false,
		"$JS.ACK.JOBS.pool-a":                         false,
		"$JS.ACK.JOBS.pool-a.1.2.3.4.*":               false,
		"$JS.ACK.JOBS.pool-a.1.2.3.4.5 x":             false,
		"$JS.API.STREAM.DELETE.JOBS":                  false,
		"":                                            false,
	} {
		if got := ofConsumer(subject, "pool-a"); (got != nil) != want || want && got[1] != "2" {
			t.Errorf("%q: %v", subject, got)
		}
	}
}
