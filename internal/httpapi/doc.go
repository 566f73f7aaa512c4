// Package httpapi is the HTTP face of a dispatcher.
//
// A handler reads the request, lets internal/admit judge what is submitted,
// calls one method of the store, and tells the dispatcher what changed. It
// holds no state of its own, so any number of dispatchers can serve at once.
// Errors leave through one door (problem.go) as RFC 9457 documents; a program
// that failed is a 200 with an outcome.
package httpapi
