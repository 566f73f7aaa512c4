// Package live runs live interpreters on a worker: sessions.
//
// A session is an attempt whose program is guest/python's session.py. Its stream lasts as long as
// the session. This package is the worker's end of the stream. It forwards dispatchers' requests,
// enforces the limits of every execution, and ends sessions that are idle, abandoned or
// misbehaving.
//
// # Frames
//
// Frames are those from package frame, each an object with the key op. Every request has an id,
// which its single response repeats.
//
//	to the session    execute {id, code, variables, tagged, wall, stdout, stderr, kill, imports}   shell {id, command, stdout, stderr, kill}
//	                  look {id}: at the output so far; has no response
//	                  set {id, name, tagged, load}  get {id, name}  list {id}  reset {id}  inject {id, names, first: the initial ones}
//	                  put {id, path, load}  file {id, path, offset, length}
//	                  fork {id}, with a descriptor: see guest/python/fork.py
//	                  interrupt {id}: of an execution or shell; has no response
//	                  answer {call, value} or {call, error}: of a host function
//	from the session  ready, once
//	                  done {id, …}: error, or the response
//	                  exceeded {id, stream}: an execution exceeded the limit of a stream in kill
//	                  call {call, name, args, kwargs}: of a host function; many may be open at once
//
// load is the number of bytes that follow the frame: a value as JSON, or a file.
//
// User code shares the process and can write to the stream. Malformed frames and unknown ops end
// the session. Unexpected responses are dropped. Calls count against the policy's budget, and the
// stream is read only as fast as calls are forwarded.
package live
