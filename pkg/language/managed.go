package language

import (
	"slices"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// java starts the Java machine of a compiler or a program. Without a limit of the heap it would take a quarter of the
// host's memory, of which the sandbox has a part: with that of the sandbox it collects its garbage in time, and what is too
// large is ended by the kernel, out of memory, whatever the program catches.
func java(args ...string) []string {
	return append([]string{"java", "-Xmx{memory}m", "-Xms16m", "-Xss64m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xshare:auto"}, args...)
}

// compiler is a Java machine for programs that are over before the second compiler of the machine has earned its time.
func compiler(args ...string) []string {
	return java(append([]string{"-XX:TieredStopAtLevel=1"}, args...)...)
}

// javac compiles into {out} with classes that are there. Its machine is told with -J what java tells it.
func javac(classes string) []string {
	out := []string{"javac"}
	for _, a := range compiler()[1:] {
		out = append(out, "-J"+a)
	}
	return append(out, "-encoding", "UTF-8", "-proc:none", "-nowarn", "-cp", classes, "-d", "{out}", "{files}")
}

// Least memory of a Java machine that does nothing, and of one that compiles.
const (
	javaMemory   = 128 * job.MiB
	javacMemory  = 512 * job.MiB
	kotlinMemory = 1 * job.GiB
	javaThreads  = 32
)

// managed are languages whose programs run on a machine of their own.
var managed = []Language{
	{
		Name: "csharp", Title: "C# (Mono)", Aliases: []string{"c#", "cs", "mono", "mono-csharp", "csharp-mono"}, File: "main.cs", Endings: []string{".cs"},
		Compile: &Step{
			Argv: []string{"mcs", "-optimize", "-langversion:latest", "-r:System.Numerics", "-out:{out}/main.exe", "{files}"},
			Env:  monoEnv, Memory: 256 * job.MiB, Processes: 32, Wall: 30 * time.Second,
		},
		Run:     Step{Argv: []string{"mono", "{out}/main.exe"}, Env: monoEnv, Memory: 64 * job.MiB, Processes: 32},
		Version: []string{"mono", "--version"},
	},
	{
		Name: "java", Title: "Java", File: "Main.java", Endings: []string{".java"},
		Compile: &Step{Argv: javac("{out}"), Memory: javacMemory, Processes: javaThreads, Wall: 60 * time.Second},
		Run:     Step{Argv: java("-cp", "{out}", "{class}"), Memory: javaMemory, Processes: javaThreads},
		Version: []string{"java", "--version"},
	},
	{
		Name: "kotlin", Title: "Kotlin", Aliases: []string{"kt"}, File: "Main.kt", Endings: []string{".kt"},
		Compile: &Step{
			Argv:   slices.Concat(compiler("-cp", kotlinClasses, "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler"), []string{"-nowarn", "-d", "{out}/main.jar", "{files}"}),
			Memory: kotlinMemory, Processes: javaThreads, Wall: 120 * time.Second,
		},
		Run:     Step{Argv: java("-jar", "{out}/main.jar"), Memory: javaMemory, Processes: javaThreads},
		Version: []string{"kotlinc", "-version"},
	},
	{
		Name: "scala", Title: "Scala", Aliases: []string{"sc"}, File: "Main.scala", Endings: []string{".scala"},
		Compile: &Step{
			Argv:   slices.Concat(compiler("-cp", scalaClasses, "scala.tools.nsc.Main"), []string{"-usejavacp", "-d", "{out}", "{files}"}),
			Memory: kotlinMemory, Processes: javaThreads, Wall: 120 * time.Second,
		},
		Run:     Step{Argv: java("-cp", "{out}:"+scalaLibrary, "{class}"), Memory: javaMemory, Processes: javaThreads},
		Version: []string{"scalac", "-version"},
	},
}

// Where Debian has the classes of languages.
const (
	kotlinClasses = "/usr/share/java/kotlin-compiler.jar"
	scalaLibrary  = "/usr/share/java/scala-library.jar"
	scalaClasses  = "/usr/share/java/scala-compiler.jar:/usr/share/java/scala-reflect.jar:" + scalaLibrary
)

// monoEnv has Mono keep nothing in the home directory, which programs cannot write to.
var monoEnv = map[string]string{"MONO_DISABLE_SHARED_AREA": "1"}
