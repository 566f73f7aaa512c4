package httpapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Reading a batch renews its lease for the whole request, not only at its start.
func TestReadersKeepLeases(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var b, none job.Batch
	f.want(http.StatusCreated, &b, "POST", "/v1/batches", `{"lease":"5s","jobs":[`+python("hang")+`]}`)
	f.want(http.StatusCreated, &none, "POST", "/v1/batches", `{"jobs":[`+python("b")+`]}`)
	until := func() time.Time {
		got, err := f.store.Batch(t.Context(), b.Tenant, b.ID)
		if err != nil {
			t.Fatal(err)
		}
		return got.LeaseUntil
	}
	path := "/v1/batches/" + string(b.ID)
	for _, read := range []string{path, path + "/results", path + "/results?wait=20ms", path + "?wait=20ms"} {
		before := until()
		f.want(http.StatusOK, nil, "GET", read, "")
		f.until("the lease is prolonged by GET "+read, func() bool { return until().After(before) })
	}
	began := until()
	f.want(http.StatusOK, nil, "GET", path+"/results?wait=3s", "")
	if more := until().Sub(began); more < 1500*time.Millisecond { // a third of the lease is 1.7 s
		t.Errorf("a request of 3 s prolonged the lease by %v", more)
	}
	// Only readers of the tenant count, and a batch without a lease gets none.
	f.want(http.StatusOK, nil, "GET", "/v1/batches/"+string(none.ID), "")
	if got, err := f.store.Batch(t.Context(), none.Tenant, none.ID); err != nil || got.Lease != 0 || !got.LeaseUntil.IsZero() {
		t.Errorf("without a lease: %+v, %v", got, err)
	}
}
