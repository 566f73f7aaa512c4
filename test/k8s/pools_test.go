//go:build cluster

package k8s

// secondPool adds an exclusive pool, and removes it again. Jobs that name it wait until it has a
// worker, and run there; no others do.
func (f *fleet) secondPool() {
	f.t.Helper()
	const gpu = "deployment/fleet-assay-worker-gpu"
	f.helm("upgrade", f.values(1, "--set", "pools.gpu.exclusive=true,pools.gpu.replicas=0,pools.gpu.labels.gpu=a100")...)
	f.rolledOut(1)
	f.during("second pool", drained, func(l *load) {
		l.pool.Store("gpu")
		f.until("a backlog of the second pool, which has no worker", func() bool { return f.backlog("gpu") > 0 })
		f.kubectl("scale", gpu, "--replicas=1")
		f.kubectl("rollout", "status", gpu, "--timeout=5m")
		f.until("jobs in both pools", func() bool { return l.workersSince(f.pods("worker")) == 2 })
	})
	f.helm("upgrade", f.values(1)...)
	f.rolledOut(1)
}
