// Package mcp serves a fleet's sandboxes to agents as tools of the Model Context Protocol.
//
// Every tool makes a few API calls as its caller. Over standard input and output (Serve, used by `assay mcp`) it uses
// a client of a fleet with its token. Over HTTP (Handler, a dispatcher's /mcp) it uses a client of the same
// dispatcher with the Authorization header of each request. So the API's permissions, ceilings, quotas and errors
// apply.
//
// A program that fails is a normal result. A tool fails (isError) if the API rejected the call or the fleet could not
// run the program. The error then has advice for the agent.
//
// Over HTTP, no state is kept between requests. Jobs and sessions have IDs that tools return and accept, so any
// dispatcher behind a load balancer can answer.
package mcp
