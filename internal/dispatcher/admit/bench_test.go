package admit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/dispatcher/admit"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

// nothing is a tenant without policies and limits.
type nothing struct{ none }

type none interface{ store.Policies }

func (nothing) Tenant(_ context.Context, name string) (store.Tenant, error) {
	return store.Tenant{Name: name, Weight: 1}, nil
}

func newAdmitter(t testing.TB) *admit.Admitter {
	t.Helper()
	o, err := object.Open(context.Background(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close() })
	return &admit.Admitter{
		Policies: nothing{}, Tenants: nothing{}, Blobs: o,
		Pool: func(context.Context, string) error { return nil }, Reserved: func(string) bool { return false },
		Hosts: func(string) []policy.Host { return nil },
	}
}

// BenchmarkLines measures admission without a store: jobs/s is its highest rate.
func BenchmarkLines(b *testing.B) {
	var body strings.Builder
	for i := range 10000 {
		fmt.Fprintf(&body, `{"name":"job-%d","labels":{"problem":"two-sum","sample":"%d"},"program":{"python":{"code":"print(x + 1)","variables":{"x":%d}}},"policy":{"wall":"10s","memory":"256Mi"}}`+"\n", i, i, i)
	}
	for _, defaults := range []string{"", `{"policy":{"wall":"5s"},"image":"python"}`} {
		b.Run("defaults="+defaults, func(b *testing.B) {
			a := newAdmitter(b)
			b.ReportAllocs()
			n := int64(0)
			for b.Loop() {
				in, err := a.Open(b.Context(), "default", nil, json.RawMessage(defaults), nil)
				if err != nil {
					b.Fatal(err)
				}
				got, err := in.Lines(b.Context(), io.Reader(strings.NewReader(body.String())), func([]store.NewJob) error { return nil })
				if err != nil {
					b.Fatal(err)
				}
				n += got
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}
