package dispatcher

import (
	"github.com/assay-run/assay/internal/dispatcher/fleet"
	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

func aboutDispatch(d store.Dispatch) telemetry.About {
	if d.TraceParent == "" { // not traced
		return telemetry.About{}
	}
	return telemetry.About{Job: d.Job, Batch: d.BatchID, Tenant: d.Tenant, Pool: placement.PoolOf(d.Pool)}
}

func aboutClaimed(workers *fleet.Fleet, c store.Claimed, worker string) telemetry.About {
	return telemetry.About{Job: c.Job, Batch: c.BatchID, Tenant: c.Tenant, Pool: workers.PoolOf(worker), Worker: worker, Attempt: c.Lease}
}

func aboutFinish(workers *fleet.Fleet, f store.Finish) telemetry.About {
	return telemetry.About{Job: f.Job, Batch: f.BatchID, Tenant: f.Tenant, Pool: workers.PoolOf(f.Worker), Worker: f.Worker, Attempt: f.Lease}
}
