package worker

// waitingCores is the highest CPU pressure, in percent of time, at which cases may run beside
// others. Above it, they would take cores from other jobs.
const waitingCores = 40

// caseReserver returns a function that reserves free room for a case beside others of the job, without
// waiting. It allows at most as many cases as the host has cores for, the job's own case included.
func (a *attempt) caseReserver() func() (func(), bool) {
	cores, need := a.Runtime.Host().Cores, a.need() // need includes the checker
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
