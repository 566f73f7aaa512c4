package language

import (
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// junitClasses is Debian's location of JUnit 5, and of JUnit 4 for older tests.
const (
	junitJar     = "/usr/share/java/junit-platform-console-standalone.jar"
	junitClasses = junitJar + ":/usr/share/java/junit4.jar:/usr/share/java/hamcrest.jar"
)

// runners lists test frameworks. Their sources are tests, and their exit code is not 0 if a test
// fails.
var runners = []Language{
	{
		Name: "gotest", Title: "Go tests", Aliases: []string{"go_test", "go-test"}, File: "main_test.go", Endings: []string{".go"},
		Compile: &Step{
			Argv: []string{"go", "test", "-c", "-o", "{out}/main.test", "{package}"}, Env: goEnv,
			Memory: 512 * job.MiB, Processes: 64, Wall: 60 * time.Second,
		},
		Run:     Step{Argv: []string{"{out}/main.test", "-test.v"}, Memory: 16 * job.MiB, Processes: 16},
		Version: []string{"go", "version"},
	},
	{
		Name: "jest", Title: "Jest", File: "main.test.js", Endings: []string{".js", ".mjs", ".cjs"},
		Run: Step{
			Argv: []string{"jest", "--config={}", "--rootDir=.", "--ci", "--runInBand", "--watchman=false", "--no-cache", "--testMatch=**/{main}"},
			Env:  map[string]string{"NO_COLOR": "1", "TMPDIR": "/tmp"}, Memory: 128 * job.MiB, Processes: nodeThreads,
		},
		Version: []string{"jest", "--version"},
	},
	{
		Name: "junit", Title: "JUnit", Aliases: []string{"junit5"}, File: "MainTest.java", Endings: []string{".java"}, scan: scanJava, byPublic: true,
		Compile: &Step{Argv: requireFile(junitJar, javac("-cp", junitClasses)...), Memory: javacMemory, Processes: javaThreads, Wall: 60 * time.Second},
		Run: Step{
			Argv: archived("junit", asserts, "-cp", junitClasses, "org.junit.platform.console.ConsoleLauncher", "--class-path={out}", "--scan-classpath={out}",
				"--include-classname=.*", "--disable-banner", "--disable-ansi-colors", "--details=tree", "--fail-if-no-tests"),
			Memory: javaMemory, Processes: javaThreads,
		},
		Version: requireFile(junitJar, "dpkg-query", "-W", "junit5"),
	},
	{
		Name: "pytest", Title: "pytest", File: "test_main.py", Endings: []string{".py"},
		Run:     Step{Argv: []string{"pytest", "-c", "/dev/null", "--rootdir=.", "-q", "-p", "no:cacheprovider", "--color=no", "{main}"}},
		Version: []string{"pytest", "--version"},
	},
}
