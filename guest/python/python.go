// Package python embeds the Python programs that run inside sandboxes: plain standard-library
// Python for 3.8 and later.
package python

import (
	_ "embed"
	"strings"
)

// Service is a program that serves the worker on a stream: it calls Function of Module with the
// descriptor. Waiting interpreters for services have the module; others receive its source.
type Service struct {
	Module   string      `json:"module"`
	Function string      `json:"function"`
	Sources  [][2]string `json:"sources,omitempty"` // names and texts of the modules that Module imports, in import order
}

// Services returns all services by name.
func Services() map[string]Service {
	code := [2]string{"assay_code", string(Code)}
	wire, proxy, fault := [2]string{"assay_wire", string(Wire)}, [2]string{"assay_proxy", string(Proxy)}, [2]string{"assay_fault", string(Fault)}
	suite, imports := [2]string{"assay_suite", string(Suite)}, [2]string{"assay_imports", string(Imports)}
	content, graph, lent := [2]string{"assay_content", string(Content)}, [2]string{"assay_graph", string(Graph)}, [2]string{"assay_lent", string(Lent)}
	apart := [2]string{"assay_apart", string(Apart)}
	async := [2]string{"assay_async", string(Async)}
	output, shell := [2]string{"assay_output", string(Output)}, [2]string{"assay_shell", string(Shell)}
	return map[string]Service{
		"solution": {"assay_solution", "solution", [][2]string{imports, wire, code, content, graph, apart, {"assay_solution", string(Solution)}}},
		"check":    {"assay_check", "check", [][2]string{wire, code, content, graph, apart, lent, proxy, fault, suite, async, {"assay_check", string(Check)}}},
		"shared": {"assay_shared", "shared", [][2]string{
			imports, wire, code, content, graph, apart, lent, proxy, fault, suite, async, {"assay_solution", string(Solution)}, {"assay_check", string(Check)}, {"assay_shared", string(Shared)},
		}},
		"session": {"_assay_session", "serve", [][2]string{imports, output, shell, wire, {"_assay_session", string(Session)}}},
	}
}

// Harness runs one snippet. It is harness.py with assay_values.py and assay_look.py in place of
// their imports, because a fresh interpreter gets one file.
var Harness = joinHarness()

//go:embed harness.py
var harness string

//go:embed assay_values.py
var values string

//go:embed assay_look.py
var look string

// joinHarness omits parts that only separate files need, because each interpreter compiles the
// whole text.
func joinHarness() []byte {
	before, rest, begun := strings.Cut(harness, "# The worker has the text of it in this place")
	_, after, ended := strings.Cut(rest, "\n)\n\n")
	_, part, imported := strings.Cut(values, "\nimport sys\n\n")
	_, looks, divided := strings.Cut(look, "\n)\n\n")
	if !begun || !ended || !imported || !divided {
		panic("python: harness.py, assay_values.py and assay_look.py do not fit together")
	}
	return []byte(before + part + "\n\n" + looks + after)
}

// Imports enforces the rules for imports: the module assay_imports. It is sent with a snippet under
// such rules.
//
//go:embed assay_imports.py
var Imports []byte

// Wire is the protocol between both ends of a graded solution: the module assay_wire.
//
//go:embed assay_wire.py
var Wire []byte

// Code runs code and reports exceptions, for both ends: the module assay_code.
//
//go:embed assay_code.py
var Code []byte

// Solution is the end with the code under test: the module assay_solution.
//
//go:embed assay_solution.py
var Solution []byte

// Check is the end with the check code: the module assay_check.
//
//go:embed assay_check.py
var Check []byte

// Content compares and replaces the content of objects: the module assay_content.
//
//go:embed assay_content.py
var Content []byte

// Graph keeps the identity of objects between both ends: the module assay_graph.
//
//go:embed assay_graph.py
var Graph []byte

// Lent limits a solution's use of the check's objects: the module assay_lent.
//
//go:embed assay_lent.py
var Lent []byte

// Async runs coroutines of a solution in the loop of its check: the module assay_async.
//
//go:embed assay_async.py
var Async []byte

// Apart finds the parts of a check that need the solution's process: the module assay_apart.
//
//go:embed assay_apart.py
var Apart []byte

// Shared runs a check and its solution in one process: the module assay_shared.
//
//go:embed assay_shared.py
var Shared []byte

// Proxy has the check's proxies of the solution's objects: the module assay_proxy.
//
//go:embed assay_proxy.py
var Proxy []byte

// Fault decides whether check code failed by itself: the module assay_fault.
//
//go:embed assay_fault.py
var Fault []byte

// Suite finds the tests in check code: the module assay_suite.
//
//go:embed assay_suite.py
var Suite []byte

// Zygote is an interpreter that is forked for each snippet.
//
//go:embed zygote.py
var Zygote []byte

// Child is the code of the zygote's forked processes, and of the fork itself.
//
//go:embed child.py
var Child []byte

// Session is a live interpreter: see session.py.
//
//go:embed session.py
var Session []byte

// Output collects the output of a session: the module assay_output.
//
//go:embed assay_output.py
var Output []byte

// Shell runs the scripts of a session: the module assay_shell.
//
//go:embed assay_shell.py
var Shell []byte

// Fork copies a live interpreter: see fork.py.
//
//go:embed fork.py
var Fork []byte

// Static returns the program that analyses others without running them: see assay_static.py. It is
// a snippet made of two files.
func Static() string {
	const imported = "from assay_names import Names\n"
	// The harness compiles code that ends with an expression in a third of the time.
	return string(names) + strings.Replace(string(static), imported, "", 1) + "\n\nmain(programs, rules, seconds)\n"
}

// ImportRules returns the source of the import rules, for Static.
func ImportRules() string { return string(Imports) }

//go:embed assay_static.py
var static []byte

//go:embed assay_names.py
var names []byte

// Preload imports modules in advance and is forked for programs: see preload.py.
//
//go:embed preload.py
var Preload []byte
