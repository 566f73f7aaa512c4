// Package grade reaches verdicts on solutions that nobody trusts.
//
// The code under test runs in a sandbox that is only ever told inputs. Whether
// its answers are right is decided elsewhere: here, in Go, for cases with an
// expected value and for output; in a second sandbox for check code, where the
// solution is a proxy whose calls go to the first. A solution may send
// anything at any time, end its process, or write to every descriptor that it
// finds: all of that is an answer, and a wrong one. No message from its sandbox
// means "passed".
//
// # Frames
//
// Each sandbox has one stream to the worker, and that of a check one to the
// solution's: the link, over which it calls the solution. A frame is its length in
// four bytes, big-endian, at most MaxFrame, and one JSON object with the key op. The
// ends inside are assay_solution.py and assay_check.py of guest/python;
// assay_wire.py is how the two speak, assay_code.py what both do with code and its
// exceptions, assay_proxy.py what the latter has of the solution beside data,
// assay_suite.py how it finds tests, and assay_fault.py whether one has failed by itself.
// assay_graph.py keeps the identity of objects, assay_lent.py bounds what a solution does with objects of the check,
// assay_async.py awaits coroutines of the solution, assay_apart.py finds checks that need its process, and
// assay_shared.py runs those in one.
//
//	to the solution        setup {setup} → ready or raise {stage, exception}, in the first sandbox, before the solution is there
//	                       decode {args, kwargs} → ready or raise {stage, exception}, after setup, for cases with arguments such as arrays of numpy
//	                       load {code, setup, function, functions, by_reference, class, link, imports} → loaded, or raise {stage, exception or problem}
//	                       case {id, args, kwargs, wall, ignore} → return or raise with the same id, then
//	                       ended {id} with code, signal or timeout of the process that ran it; ended alone if that just ended
//	                       late {id}, when its wall is over on its own clock → left {left}
//	check → solution       call {ref, at, args, kwargs or graph, lazy, share}, get {ref, name}, set {ref, name, value}, next {ref},
//	                       is {ref, other}, special {ref, name, args}, send {ref, args}, close {ref},
//	                       spawn {ref, name, args}, drive {tasks, seconds}, cancel {task}
//	                       → return {value or graph, changed} or raise {exception, changed}
//	solution → check       call {ref, at, args, kwargs or graph, do}, while one of the above is open → return or raise
//	to the check           check {check, setup, function, functions, class, wall, link}; with code and imports if it shares its process
//	from the check         begin {code: tests after it} and verdict {name, passed, …} for each test in it, then done {calls, asked};
//	                       unloaded {stage, exception or problem}, if the solution that shares its process cannot be loaded;
//	                       lost {problem: late, closed or protocol} → raise, when the link is of no use any more;
//	                       late, when the time of the test is over on its own clock → left {left}
//
// The two sandboxes take turns: a frame is read only from the one whose turn it
// is. When the link is lost, the solution's process is ended, the test that ran has
// failed, and what the check asks of the solution's next process is relayed by the
// worker, over the streams that it has to both. Only the second sandbox's verdicts
// count, and only after it said done.
//
// # Errors of the tests
//
// What no solution could have passed ends as job.CheckError, and has no score. A wrong
// solution must not come by that: docs/adr/0024 has the rule.
//
// # Values
//
// A value is JSON where JSON can say it: null, booleans, whole numbers of any
// size, floats (with a point or an exponent), strings, lists, and objects for
// dicts whose keys are strings. Anything else is an object with one key, the
// tag. Case arguments and expected values are written in the same way.
//
//	{"$float": "nan"}                also inf and -inf
//	{"$int": "0x…"}                  very large ones
//	{"$complex": [1.0, 2.0]}
//	{"$bytes": "base64"}             also $bytearray
//	{"$str": "base64"}               UTF-8 with lone surrogates
//	{"$tuple": […]}                  also $set and $frozenset
//	{"$dict": [[key, value], …]}     keys that are not strings, or one key that starts with $
//	{"$std": ["fractions.Fraction", [args]]}  assay_wire.STANDARD has the types
//	{"$other": ["type", "repr"]}     anything else: it equals nothing, and fails the test of a check
//
// And between a check and its solution:
//
//	{"$obj": ["Point", [[name, value], …]]}  an instance of a class of the setup, by its fields; of an enum, by the name
//	{"$view": ["dict_keys", […]]}            also dict_values and dict_items
//	{"$ndarray": ["<f8", [2, 3], "base64"]}  an array of numpy: its elements, shape and bytes
//	{"$error": {type, message, args, …}}     an exception that was returned
//	{"$i": place}, {"$at": number}, {"$n": [number, value]}  parts of a graph, and objects that have crossed: assay_graph.py
//	{"$ref": [number, kind, type]}           what the sender keeps; kinds are those of assay_proxy.py
//	{"$back": number}                        what the receiver keeps
package grade
