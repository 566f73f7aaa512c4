// Package health keeps a worker from taking jobs that would not end well on its host:
//
//	pressure   while the host suffers, as its kernel says
//	breaker    while all jobs fail here, or a dispatcher orders a rest
//	canary     until a job of the worker's own has run, and at isolations at which none has
//
// Each decides for itself; the worker asks all of them.
package health
