// Package mcp serves a fleet's sandboxes to agents as tools of the Model Context Protocol.
//
// Every tool is a few calls of the API, made as the caller: over standard input and output
// (Serve, which is `assay mcp`) by a client of some fleet with its token, over HTTP (Handler, a
// dispatcher's /mcp) by a client of that very dispatcher with the Authorization header of each
// request. So who may do what, ceilings, quotas and errors are the API's, and exist once.
//
// A program that fails is a result like any other. A tool fails (isError) where the API refused
// the call or the fleet could not run the program, and says then what the agent can do.
//
// Nothing is kept between two requests over HTTP: what has to be found again (a job, a session)
// has an id that tools return and take, so any dispatcher behind a load balancer can answer.
package mcp
