// Package health keeps a worker from taking jobs that would fail on its host:
//
//	pressure   while the kernel reports high pressure on the host
//	breaker    while all jobs fail here, or a dispatcher orders a rest
//	canary     before canary jobs have run, and at isolations where they failed
//
// Each decides independently; the worker consults all of them. UsageMeter only measures, for heartbeats.
package health
