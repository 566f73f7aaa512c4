package worker

// waitingCores is at most how much of the time, in percent, tasks of the host may wait for a core while cases run beside others: what runs
// then would take from them.
const waitingCores = 40

// beside takes what is free of this worker for cases that run beside others of the job, which never wait for it: at most
// as many as the host has cores for, the job's own case included.
func (a *attempt) beside() func() (func(), bool) {
	cores, need := a.Runtime.Host().Cores, a.need() // what decides on a case is part of it
	free := make(chan struct{}, max(int(float64(cores)/max(a.plan.Policy.CPU, 1))-1, 0))
	return func() (func(), bool) {
		if cpu, _, _ := a.pressure.Stalled(); cpu > waitingCores {
			return nil, false
		}
		select {
		case free <- struct{}{}:
		default:
			return nil, false
		}
		stay, ok := a.capacity.TryEnter(need, cores)
		if !ok {
			<-free
			return nil, false
		}
		return func() { stay.Leave(); <-free }, true
	}
}
