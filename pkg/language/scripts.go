package language

import (
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// node returns the command line of Node.js. A program may use all memory of its sandbox: the kernel
// ends a larger one as out of memory, while Node.js would report a crash.
func node(args ...string) []string {
	return append([]string{"node", "--max-old-space-size={memory}"}, args...)
}

const (
	nodeModules = "/usr/share/nodejs" // Debian's location of them
	nodeMemory  = 64 * job.MiB
	nodeThreads = 16
)

// scripts lists the languages that run from source, directly or translated.
var scripts = []Language{
	{
		Name: "bash", Title: "Bash", Aliases: []string{"sh", "shell"}, File: "main.sh", Endings: []string{".sh"},
		Run: Step{Argv: []string{"bash", "{main}"}}, Version: []string{"bash", "--version"},
	},
	{
		Name: "javascript", Title: "JavaScript (Node.js)", Aliases: []string{"js", "node", "nodejs", "node-js", "node-javascript"}, File: "main.js", Endings: []string{".js", ".mjs", ".cjs"},
		Run: Step{Argv: node("{main}"), Memory: nodeMemory, Processes: nodeThreads}, Version: []string{"node", "--version"},
	},
	{
		Name: "lua", Title: "Lua", Aliases: []string{"lua5.4"}, File: "main.lua", Endings: []string{".lua"},
		Run: Step{Argv: []string{"lua5.4", "{main}"}}, Version: []string{"lua5.4", "-v"},
	},
	{
		Name: "perl", Title: "Perl", Aliases: []string{"pl"}, File: "main.pl", Endings: []string{".pl"},
		Run: Step{Argv: []string{"perl", "{main}"}}, Version: []string{"perl", "--version"},
	},
	{
		Name: "php", Title: "PHP", Aliases: []string{"php8"}, File: "main.php", Endings: []string{".php"},
		Run: Step{Argv: []string{"php", "-d", "memory_limit=-1", "-d", "zend.assertions=1", "{main}"}}, Version: []string{"php", "--version"},
	},
	{
		Name: "pypy", Title: "Python (PyPy)", Aliases: []string{"pypy3"}, File: "main.py", Endings: []string{".py"},
		Run: Step{Argv: []string{"pypy3", "{main}"}, Memory: 64 * job.MiB}, Version: []string{"pypy3", "--version"},
	},
	{
		Name: "python", Title: "Python", Aliases: []string{"py", "py3", "python3"}, File: "main.py", Endings: []string{".py"},
		Run: Step{Argv: []string{"python3", "{main}"}}, Version: []string{"python3", "--version"},
	},
	{
		Name: "r", Title: "R", Aliases: []string{"rscript"}, File: "main.R", Endings: []string{".R", ".r"},
		Run: Step{Argv: []string{"Rscript", "--vanilla", "{main}"}, Memory: 128 * job.MiB, Processes: 8}, Version: []string{"Rscript", "--version"},
	},
	{
		Name: "ruby", Title: "Ruby", Aliases: []string{"rb", "ruby3"}, File: "main.rb", Endings: []string{".rb"},
		Run: Step{Argv: []string{"ruby", "{main}"}, Memory: 32 * job.MiB, Processes: 4}, Version: []string{"ruby", "--version"},
	},
	{
		Name: "sqlite", Title: "SQL (SQLite)", Aliases: []string{"sql", "sqlite3"}, File: "main.sql", Endings: []string{".sql"},
		Run: Step{Argv: []string{"sqlite3", "-batch", "-bail", ":memory:", `.read "{main}"`}}, Version: []string{"sqlite3", "--version"},
	},
	{
		Name: "typescript", Title: "TypeScript", Aliases: []string{"ts", "node-ts", "tsc", "typescript5"}, File: "main.ts", Endings: []string{".ts"},
		Compile: &Step{
			// Each file is a module, so a file's own names do not clash with global declarations of
			// browsers.
			Argv: []string{"tsc", "--target", "es2022", "--module", "commonjs", "--moduleDetection", "force", "--esModuleInterop", "--skipLibCheck",
				"--typeRoots", nodeModules + "/@types", "--types", "node", "--noEmitOnError", "--rootDir", ".", "--outDir", "{out}", "{files}"},
			Memory: 512 * job.MiB, Processes: nodeThreads, Wall: 60 * time.Second,
		},
		Run: Step{Argv: node("{out}/{stem}.js"), Memory: nodeMemory, Processes: nodeThreads}, Version: []string{"tsc", "--version"},
	},
}
