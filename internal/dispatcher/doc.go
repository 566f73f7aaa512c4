// Package dispatcher moves accepted jobs to the workers and their results into the store.
//
// It has a few loops, a file each:
//
//	scheduler  queued → dispatched, through a small window, as late as possible
//	recorder   answers the workers' claims, heartbeats and results, in bulk
//	reaper     takes back lost jobs, publishes unclaimed ones again
//	sweeper    removes objects that no record names; only the leader sweeps
//	fleet      (a package) connected workers, and how many jobs they take at once
//	gauges     the current state of the fleet
//
// Replicas share no state but the store, and every step is one of its guarded statements. So several dispatchers may
// run at once. If one dies between the dispatch and the publishing of a job, a reaper publishes the job.
package dispatcher
