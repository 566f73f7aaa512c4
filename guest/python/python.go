// Package python embeds the python programs that run inside sandboxes: plain
// standard-library Python for 3.8 and later.
package python

import _ "embed"

// Harness runs one snippet.
//
//go:embed harness.py
var Harness []byte

// Grade is both ends of a graded solution: the module assay_grade.
//
//go:embed assay_grade.py
var Grade []byte

// Zygote is an interpreter that is forked for each snippet.
//
//go:embed zygote.py
var Zygote []byte

// Session is a live interpreter: see session.py.
//
//go:embed session.py
var Session []byte

// Fork copies a live interpreter: see fork.py.
//
//go:embed fork.py
var Fork []byte
