package language

import (
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// goEnv places Go's cache in a writable directory and disables network access. The image contains
// the compiled standard library.
var goEnv = map[string]string{"GOCACHE": "/tmp/go-build", "GOPATH": "/tmp/go", "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOTELEMETRY": "off"}

// native lists the languages that compile to machine code.
var native = []Language{
	{
		Name: "c", Title: "C", Aliases: []string{"gcc"}, File: "main.c", Endings: []string{".c"},
		Compile: &Step{Argv: []string{"gcc", "-O2", "-std=gnu17", "-o", "{out}/main", "{files}", "-lm"}, Memory: 256 * job.MiB, Processes: 8, Wall: 30 * time.Second},
		Run:     Step{Argv: []string{"{out}/main"}}, Version: []string{"gcc", "--version"},
	},
	{
		Name: "cpp", Title: "C++", Aliases: []string{"c++", "cxx", "g++"}, File: "main.cpp", Endings: []string{".cpp", ".cc", ".cxx", ".c++", ".C"},
		Compile: &Step{Argv: []string{"g++", "-O2", "-std=gnu++20", "-o", "{out}/main", "{files}"}, Memory: 512 * job.MiB, Processes: 8, Wall: 60 * time.Second},
		Run:     Step{Argv: []string{"{out}/main"}}, Version: []string{"g++", "--version"},
	},
	{
		Name: "go", Title: "Go", Aliases: []string{"golang"}, File: "main.go", Endings: []string{".go"},
		Compile: &Step{
			Argv: []string{"go", "build", "-o", "{out}/main", "{package}"}, Env: goEnv,
			Memory: 512 * job.MiB, Processes: 64, Wall: 60 * time.Second,
		},
		Run: Step{Argv: []string{"{out}/main"}, Memory: 16 * job.MiB, Processes: 16}, Version: []string{"go", "version"},
	},
	{
		Name: "haskell", Title: "Haskell", Aliases: []string{"hs", "ghc"}, File: "main.hs", Endings: []string{".hs"},
		Compile: &Step{
			Argv:   []string{"ghc", "-O1", "-fno-ignore-asserts", "-v0", "-outputdir", "/tmp/ghc", "-o", "{out}/main", "{main}"},
			Memory: 512 * job.MiB, Processes: 16, Wall: 60 * time.Second,
		},
		Run: Step{Argv: []string{"{out}/main"}, Processes: 8}, Version: []string{"ghc", "--version"},
	},
	{
		Name: "ocaml", Title: "OCaml", Aliases: []string{"ml"}, File: "main.ml", Endings: []string{".ml"},
		Compile: &Step{
			Argv:   []string{"ocamlopt", "-O3", "-o", "{out}/main", "unix.cmxa", "str.cmxa", "{files}"},
			Memory: 256 * job.MiB, Processes: 8, Wall: 30 * time.Second,
		},
		Run: Step{Argv: []string{"{out}/main"}}, Version: []string{"ocamlopt", "-version"},
	},
	{
		Name: "rust", Title: "Rust", Aliases: []string{"rs", "rustc"}, File: "main.rs", Endings: []string{".rs"},
		Compile: &Step{
			Argv:   []string{"rustc", "--edition=2021", "-O", "-o", "{out}/main", "{main}"},
			Memory: 512 * job.MiB, Processes: 32, Wall: 60 * time.Second,
		},
		Run: Step{Argv: []string{"{out}/main"}}, Version: []string{"rustc", "--version"},
	},
}
