package job

// Wait is the reason why an unfinished job waits.
type Wait string

// The kinds of waits.
const (
	WaitsPaused Wait = "paused" // an operator has paused its batch, its tenant or the pool of its workers
	WaitsQuota  Wait = "quota"  // its tenant runs as many jobs as it may at once
	WaitsPool   Wait = "pool"   // no worker of its pool is connected, or another pool could run it
	WaitsImage  Wait = "image"  // the connected workers are reserved for other images
	WaitsWorker Wait = "worker" // no suitable worker takes jobs at the moment
	WaitsNeeds  Wait = "needs"  // no connected worker is large or equipped enough for it
	WaitsCores  Wait = "cores"  // the cores of the workers that could run it are in use
	WaitsSlot   Wait = "slot"   // all slots of the workers that could run it are taken
	WaitsTurn   Wait = "turn"   // the scheduler starts other jobs first
)

// Waits has all kinds of waits.
var Waits = []Wait{WaitsPaused, WaitsQuota, WaitsPool, WaitsImage, WaitsWorker, WaitsNeeds, WaitsCores, WaitsSlot, WaitsTurn}
