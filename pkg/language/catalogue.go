package language

import (
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// catalogue is every language, sorted by name.
var catalogue = []Language{
	{
		Name: "bash", Title: "Bash", Aliases: []string{"sh", "shell"}, File: "main.sh",
		Run: Step{Argv: []string{"bash", "{main}"}}, Version: []string{"bash", "--version"},
	},
	{
		Name: "c", Title: "C", Aliases: []string{"gcc"}, File: "main.c",
		Compile: &Step{Argv: []string{"gcc", "-O2", "-std=gnu17", "-o", "{out}/main", "{files}", "-lm"}, Memory: 256 * job.MiB, Processes: 8, Wall: 30 * time.Second},
		Run:     Step{Argv: []string{"{out}/main"}}, Version: []string{"gcc", "--version"},
	},
	{
		Name: "cpp", Title: "C++", Aliases: []string{"c++", "cxx", "g++"}, File: "main.cpp",
		Compile: &Step{Argv: []string{"g++", "-O2", "-std=gnu++20", "-o", "{out}/main", "{files}"}, Memory: 512 * job.MiB, Processes: 8, Wall: 60 * time.Second},
		Run:     Step{Argv: []string{"{out}/main"}}, Version: []string{"g++", "--version"},
	},
	{
		Name: "python", Title: "Python", Aliases: []string{"py", "python3"}, File: "main.py",
		Run: Step{Argv: []string{"python3", "{main}"}}, Version: []string{"python3", "--version"},
	},
}
