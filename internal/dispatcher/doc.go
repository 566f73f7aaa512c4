// Package dispatcher moves accepted jobs towards the workers and their results
// into the record.
//
// It has a few loops, a file each, and no state that another replica would miss:
//
//	scheduler  queued → dispatched, through a small window, as late as possible
//	recorder   answers the workers' claims, heartbeats and results, in bulk
//	reaper     takes back what was lost, publishes again what nobody claimed
//	fleet      (a package) which workers live, and how many jobs they take at once
//	gauges     what the fleet looks like now
//
// Every step is a guarded statement of package store, so several dispatchers do
// each other no harm, and one that dies leaves nothing half done: what it had
// dispatched but not published, a reaper publishes again.
package dispatcher
