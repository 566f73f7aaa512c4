// Package live keeps live interpreters on a worker: sessions.
//
// A session is an attempt whose program is guest/python's session.py, and whose
// stream lasts as long as the session. This package is the worker's end of
// it: it passes on what dispatchers ask, holds every execute to its limits, and
// ends sessions that nobody uses, whose client is gone, or that misbehave.
//
// # Frames
//
// Frames are those of package frame, each an object with
// the key op. Every request has an id, which its one answer repeats.
//
//	to the session    execute {id, code, variables, tagged, wall, stdout, stderr, kill, imports}   shell {id, command, stdout, stderr, kill}
//	                  look {id}: at what was written meanwhile; has no answer of its own
//	                  set {id, name, tagged, load}  get {id, name}  list {id}  reset {id}  inject {id, names, first: the session is made with these}
//	                  put {id, path, load}  file {id, path, offset, length}
//	                  fork {id}, with a descriptor: see guest/python/fork.py
//	                  interrupt {id}: of an execution or shell; has no answer of its own
//	                  answer {call, value} or {call, error}: of a host function
//	from the session  ready, once
//	                  done {id, …}: error, or what was asked for
//	                  exceeded {id, stream}: what executes wrote more than it may, where kill names the stream
//	                  call {call, name, args, kwargs}: of a host function; many may be open at once
//
// load is a number of bytes that follow the frame: of a value, as JSON, or of a
// file.
//
// User code shares the process and can write to the stream. Whatever is no
// frame, or has an unknown op, ends the session; an answer that nobody asked for
// is dropped; calls are counted against the policy's budget, and the stream is
// read only as fast as calls are passed on.
package live
