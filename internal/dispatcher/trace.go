package dispatcher

import (
	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

func aboutDispatch(d store.Dispatch) telemetry.About {
	if d.TraceParent == "" { // nobody asks
		return telemetry.About{}
	}
	return telemetry.About{Job: d.Job, Batch: d.BatchID, Tenant: d.Tenant, Pool: placement.PoolOf(d.Pool)}
}

func (d *Dispatcher) aboutClaimed(c store.Claimed, worker string) telemetry.About {
	return telemetry.About{Job: c.Job, Batch: c.BatchID, Tenant: c.Tenant, Pool: d.fleet.PoolOf(worker), Worker: worker, Attempt: c.Lease}
}

func (d *Dispatcher) aboutFinish(f store.Finish) telemetry.About {
	return telemetry.About{Job: f.Job, Batch: f.BatchID, Tenant: f.Tenant, Pool: d.fleet.PoolOf(f.Worker), Worker: f.Worker, Attempt: f.Lease}
}
