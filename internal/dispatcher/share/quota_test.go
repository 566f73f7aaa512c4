package share

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

func TestPace(t *testing.T) {
	t.Parallel()
	for rate, burst := range map[float64]int{0.5: 1, 1: 1, 10: 10, 1000: 1000} {
		synctest.Test(t, func(t *testing.T) {
			var p Pace
			n := 0
			for p.Take(1, rate) == 0 {
				n++
			}
			if n != burst {
				t.Errorf("at %v a second %d came at once, want %d", rate, n, burst)
			}
			start := time.Now()
			for range 20 {
				for early := p.Take(1, rate); early > 0; early = p.Take(1, rate) {
					time.Sleep(early)
				}
			}
			if took, want := time.Since(start).Seconds(), 20/rate; took < want*0.99 || took > want*1.01 {
				t.Errorf("at %v a second 20 took %.3f s, want %.3f", rate, took, want)
			}
		})
	}
}

// TestQuotasOfManyTenants checks that quotas of tenants without recent requests are dropped, and that the others keep their pace.
func TestQuotasOfManyTenants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := Quotas{Ceiling: func(context.Context, string) (policy.Ceiling, error) {
			return policy.Ceiling{Requests: 1, Bytes: 1}, nil
		}}
		for i := range 3 * maxQuotas {
			if _, err := q.Tenant(strconv.Itoa(i)).Begin(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if i%1000 == 0 {
				time.Sleep(time.Second)
			}
		}
		if n := len(q.of); n > maxQuotas {
			t.Errorf("%d quotas, want at most %d", n, maxQuotas)
		}
		if _, err := q.Tenant(strconv.Itoa(3*maxQuotas-1)).Begin(t.Context(), nil); !errors.Is(err, job.ErrTooMany) {
			t.Errorf("the second request at once: %v", err)
		}
	})
}

// TestQuotaOfRequests checks that the error names the limit, its value and the retry time, and that other tenants are
// not affected.
func TestQuotaOfRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := Quotas{Ceiling: func(_ context.Context, tenant string) (policy.Ceiling, error) {
			switch tenant {
			case "mean":
				return policy.Ceiling{Requests: 0.25, Bytes: 1000}, nil
			case "unknown":
				return policy.Ceiling{}, job.ErrUnavailable
			}
			return policy.Ceiling{}, nil
		}}
		begin := func(tenant string) error {
			_, err := q.Tenant(tenant).Begin(t.Context(), nil)
			return err
		}
		if err := begin("mean"); err != nil {
			t.Fatal(err)
		}
		err := begin("mean")
		if p := api.NewProblem(err); p.Status != 429 || !strings.Contains(p.Detail, "0.25 requests a second from this tenant (requests_per_second") || RetryAfter(err) != 4 || errors.Is(err, job.ErrInvalid) {
			t.Errorf("%+v, again after %d s", p, RetryAfter(err))
		}
		for range 1000 {
			if err := errors.Join(begin("kind"), begin("unknown")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Duration(RetryAfter(err)) * time.Second)
		if err := begin("mean"); err != nil {
			t.Errorf("when it was told to: %v", err)
		}
	})
}

// TestQuotaOfBytes checks that one body may exceed the rate, and that the next must wait for it.
func TestQuotaOfBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := Quotas{Ceiling: func(context.Context, string) (policy.Ceiling, error) { return policy.Ceiling{Bytes: 1000}, nil }}
		send := func(n int) error {
			body, err := q.Tenant("t").Begin(t.Context(), io.NopCloser(strings.NewReader(strings.Repeat("x", n))))
			if err == nil {
				_, err = io.Copy(io.Discard, body)
			}
			return err
		}
		for _, n := range []int{0, 500, 5000} {
			if err := send(n); err != nil {
				t.Fatalf("%d: %v", n, err)
			}
		}
		err := send(1)
		if p := api.NewProblem(err); p.Status != 429 || !strings.Contains(p.Detail, "1000 a second on average from this tenant (bytes_per_second") || RetryAfter(err) != 5 {
			t.Errorf("%+v, again after %d s", p, RetryAfter(err))
		}
		time.Sleep(5 * time.Second)
		if err := send(1); err != nil {
			t.Errorf("when it was told to: %v", err)
		}
	})
}
