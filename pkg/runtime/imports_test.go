package runtime_test

import (
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// TestImports checks that only unconditional statements count as a program's imports.
func TestImports(t *testing.T) {
	for code, want := range map[string]string{
		"":                              "",
		"import numpy":                  "numpy",
		"import numpy as np, os.path\n": "numpy os.path",
		"from scipy.linalg import (\n  lu,\n  qr as q,\n)\nimport numpy\n": "numpy scipy.linalg scipy.linalg:lu scipy.linalg:qr",
		"from scipy import(stats)":                                              "scipy scipy:stats",
		"from pandas import DataFrame as D; import re":                          "pandas pandas:DataFrame re",
		"from a import *":                                                       "a",
		"import a, \\\n  b\nimport c # import d":                                "a b c",
		"\ufeffimport a\r\nimport b\r\n":                                        "a b",
		"\"\"\"\nimport numpy\n\"\"\"\nx = '\\''\nimport re":                    "re",
		"x = 'a\\\nimport numpy'\nimport re":                                    "re",
		"r'''\\\nimport numpy'''":                                               "",
		"if x:\n    import numpy\n\timport b":                                   "",
		"x = [\nimport_, '''\nimport numpy''']":                                 "",
		"from . import a\nfrom .b import c\nfrom __future__ import annotations": "",
		"import 1a\nimports = 3\nfrom x\nimport":                                "",
		"import numpy;x=1":                                                      "numpy",
		"importlib.import_module('numpy')":                                      "",
		"if True: import numpy":                                                 "",
		"import\tnumpy":                                                         "numpy",
	} {
		if got := strings.Join(runtime.Imports(code), " "); got != want {
			t.Errorf("%q imports %q, want %q", code, got, want)
		}
	}
}

// TestImportsOf checks that programs that do not suit a preloaded interpreter get no preload.
func TestImportsOf(t *testing.T) {
	const program = "import numpy"
	def := policy.Default()
	if got := runtime.ImportsOf(program, &def); got != "numpy" {
		t.Errorf("by default %q", got)
	}
	if got := runtime.ImportsOf("", &def); got != "" {
		t.Errorf("of a command %q", got)
	}
	for name, edit := range map[string]func(*policy.Policy){
		"env.set":     func(p *policy.Policy) { p.Env.Set = map[string]string{"OMP_NUM_THREADS": "2"} },
		"env.secrets": func(p *policy.Policy) { p.Env.Secrets = map[string]string{"KEY": "key"} },
		"read":        func(p *policy.Policy) { p.Read = []string{"/data"} },
		"write":       func(p *policy.Policy) { p.Write = []string{"/elsewhere"} },
	} {
		p := policy.Default()
		edit(&p)
		if got := runtime.ImportsOf(program, &p); got != "" {
			t.Errorf("with %s %q", name, got)
		}
	}
}

func FuzzImports(f *testing.F) {
	for _, s := range []string{"import a", "'", "\"\"\"\\", "(", "\\", "from a import ("} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, code string) { runtime.Imports(code) })
}
