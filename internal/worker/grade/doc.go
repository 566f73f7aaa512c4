// Package grade decides verdicts on untrusted solutions.
//
// The sandbox of the code under test receives inputs only. Its answers are judged elsewhere. Go
// code here judges cases with an expected value and outputs. Check code runs in a second sandbox,
// where the solution is a proxy whose calls go to the first. A solution may send anything at any
// time, end its process, or write to every descriptor. All of these are answers, and wrong ones: no
// message from its sandbox means "passed".
//
// # Frames
//
// Each sandbox has one stream to the worker. The check's sandbox has another one to the solution's:
// the link, for calls of the solution. A frame is a length in four bytes, big-endian, at most
// MaxFrame, and one JSON object with the key op.
//
// The programs in the sandboxes are assay_solution.py and assay_check.py of guest/python. They use
// these modules:
//
//   - assay_wire.py: the protocol between the two
//
//   - assay_code.py: running code and reporting exceptions
//
//   - assay_proxy.py: the check's proxies of the solution's objects
//
//   - assay_suite.py: finding the tests of a check
//
//   - assay_fault.py: deciding whether a check failed by itself
//
//   - assay_content.py: comparing and replacing the content of objects
//
//   - assay_graph.py: keeping the identity of objects
//
//   - assay_lent.py: limiting a solution's use of the check's objects
//
//   - assay_async.py: awaiting coroutines of the solution
//
//   - assay_apart.py: finding checks that need the solution's process
//
//   - assay_shared.py: running check and solution in one process
//
//     to the solution        setup {setup} → ready or raise {stage, exception}, in the first sandbox, before the solution is sent
//     decode {args, kwargs} → ready or raise {stage, exception}, after setup, for arguments such as numpy arrays
//     load {code, setup, function, functions, by_reference, class, link, imports} → loaded, or raise {stage, exception or problem}
//     case {id, args, kwargs, wall, ignore} → return or raise with the same id, then
//     ended {id} with code, signal or timeout of the process that ran it; ended alone if it just ended
//     late {id}, when its wall is over on its own clock → left {left}
//     check → solution       call {ref, at, args, kwargs or graph, lazy, share}, get {ref, name}, set {ref, name, value}, next {ref},
//     is {ref, other}, special {ref, name, args}, send {ref, args}, close {ref},
//     spawn {ref, name, args}, drive {tasks, seconds}, cancel {task}
//     → return {value or graph, changed} or raise {exception, changed}
//     solution → check       call {ref, at, args, kwargs or graph, do}, while one of the above is open → return or raise
//     to the check           check {check, setup, function, functions, class, wall, link}; with code and imports in a shared process
//     from the check         begin {code: tests after it} and verdict {name, passed, …} for each test, then done {calls, asked};
//     unloaded {stage, exception or problem}, if the solution in a shared process cannot be loaded;
//     lost {problem: late, closed or protocol} → raise, when the link is broken;
//     late, when the time of the test is over on its own clock → left {left}
//
// The two sandboxes take turns: the worker reads a frame only from the one whose turn it is. When
// the link is lost, the worker ends the solution's process and fails the running test. It then
// relays the check's later calls to the solution's next process over its streams to both. Only
// verdicts of the second sandbox count, and only after its done.
//
// # Errors of the tests
//
// A case that no solution could pass ends as job.CheckError, without a score. A wrong solution must
// not be able to cause this: docs/adr/0024 has the rule.
//
// # Values
//
// A value is plain JSON if possible: null, booleans, integers of any size, floats (with a point or
// an exponent), strings, lists, and objects for dicts with string keys. Other values are an object
// with one key, the tag. Case arguments and expected values use the same format.
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
// Between a check and its solution there are also:
//
//	{"$obj": ["Point", [[name, value], …]]}  an instance of a class of the setup, by its fields; of an enum, by the name
//	{"$view": ["dict_keys", […]]}            also dict_values and dict_items
//	{"$ndarray": ["<f8", [2, 3], "base64"]}  a numpy array: its elements, shape and bytes
//	{"$error": {type, message, args, …}}     an exception as a value
//	{"$i": place}, {"$at": number}, {"$n": [number, value]}  parts of a graph, and objects sent before: assay_graph.py
//	{"$ref": [number, kind, type]}           an object of the sender; assay_proxy.py has the kinds
//	{"$back": number}                        an object of the receiver
package grade
