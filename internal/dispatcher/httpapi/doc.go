// Package httpapi is the HTTP interface of a dispatcher.
//
// A handler reads the request, has internal/dispatcher/admit validate submitted work, calls one method of the store, and notifies
// the dispatcher of changes. It holds no state of its own, so several dispatchers can serve at once. All errors become
// RFC 9457 documents (web/problem.go). A failed program is a 200 with an outcome.
package httpapi
