package language

import (
	"slices"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// java starts the Java machine. Without a limit of the heap it would take a quarter of the host's memory, of which the
// sandbox has a part: with that of the sandbox it collects its garbage in time, and what is too large is ended by the kernel,
// out of memory, whatever the program catches.
func java(args ...string) []string {
	return append([]string{"java", "-Xmx{memory}m", "-Xms16m", "-Xss64m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xshare:auto"}, args...)
}

// archived is java for a tool that is over before the second compiler of the machine has earned its time. Its classes are in
// an archive of that name, which images/polyglot/customize makes; where there is none, it takes longer.
func archived(name string, args ...string) []string {
	return java(append([]string{"-XX:TieredStopAtLevel=1", "-XX:SharedArchiveFile=/usr/share/assay/" + name + ".jsa"}, args...)...)
}

// javac compiles into {out} with classes that are there.
func javac(classes ...string) []string {
	return archived("javac", slices.Concat([]string{"-m", "jdk.compiler/com.sun.tools.javac.Main", "-encoding", "UTF-8", "-proc:none", "-nowarn"},
		classes, []string{"-d", "{out}", "{files}"})...)
}

// Assertions count, for a test may consist of them: without this they are not even evaluated, and whatever they would refuse
// passes. Kotlin's are a function of its library.
const (
	asserts       = "-ea"
	kotlinAsserts = "-ea:kotlin..."
)

// where starts a command where a file is: without, Java would say that the program has no such class, and the program would be
// blamed. As a shell does, it ends with 127.
func where(file string, argv ...string) []string {
	return append([]string{"sh", "-c", `test -e "$0" || { echo "there is no $0" >&2; exit 127; }; exec "$@"`, file}, argv...)
}

// Least memory of a Java machine that does nothing, and of one that compiles.
const (
	javaMemory   = 128 * job.MiB
	javacMemory  = 512 * job.MiB
	kotlinMemory = 1 * job.GiB
	javaThreads  = 32

	kotlinScriptMemory = 256 * job.MiB
)

// managed are languages whose programs run on a machine of their own.
var managed = []Language{
	{
		Name: "csharp", Title: "C# (Mono)", Aliases: []string{"c#", "cs", "mono", "mono-csharp", "csharp-mono"}, File: "main.cs", Endings: []string{".cs"},
		Compile: &Step{
			Argv:   []string{"mcs", "-optimize", "-langversion:latest", "-r:System.Numerics", "-out:{out}/main.exe", "{files}"},
			Memory: 256 * job.MiB, Processes: 32, Wall: 30 * time.Second,
		},
		Run:     Step{Argv: []string{"mono", "{out}/main.exe"}, Memory: 64 * job.MiB, Processes: 32},
		Version: []string{"mono", "--version"},
	},
	{
		Name: "java", Title: "Java", File: "Main.java", Endings: []string{".java"}, scan: scanJava, byPublic: true,
		Compile: &Step{Argv: javac(), Memory: javacMemory, Processes: javaThreads, Wall: 60 * time.Second},
		Run:     Step{Argv: java(asserts, "-cp", "{out}", "{class}"), Memory: javaMemory, Processes: javaThreads},
		Version: []string{"java", "--version"},
	},
	{
		Name: "kotlin", Title: "Kotlin", Aliases: []string{"kt"}, File: "Main.kt", Endings: []string{".kt"},
		Compile: &Step{
			Argv:   kotlin("-d", "{out}/main.jar", "{files}"),
			Memory: kotlinMemory, Processes: javaThreads, Wall: 120 * time.Second,
		},
		Run: Step{
			// The archive knows in which class the program begins, whatever its file and its package are called.
			Argv:   java(asserts, kotlinAsserts, "-Xbootclasspath/a:"+kotlinLibrary, "-jar", "{out}/main.jar"),
			Memory: javaMemory, Processes: javaThreads,
		},
		Version: kotlinVersion,
	},
	{
		Name: "kotlinscript", Title: "Kotlin script", Aliases: []string{"kotlin_script", "kotlin-script", "kts"}, File: "main.kts", Endings: []string{".kts"},
		Run: Step{
			Argv:   []string{"kotlinc", "-J-Xmx{memory}m", "-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1", "-J" + kotlinAsserts, "-nowarn", "-Xplugin=" + kotlinPlugins, "-script", "{main}"},
			Memory: kotlinScriptMemory, Processes: javaThreads,
		},
		Version: kotlinVersion,
	},
	{
		Name: "scala", Title: "Scala", Aliases: []string{"sc"}, File: "Main.scala", Endings: []string{".scala"}, scan: scanScala,
		Compile: &Step{
			Argv:   where(scalaJar, archived("scalac", "-cp", scalaClasses, "scala.tools.nsc.Main", "-usejavacp", "-d", "{out}", "{files}")...),
			Memory: kotlinMemory, Processes: javaThreads, Wall: 120 * time.Second,
		},
		Run:     Step{Argv: java("-cp", "{out}:"+scalaLibrary, "{class}"), Memory: javaMemory, Processes: javaThreads},
		Version: []string{"scalac", "-version"},
	},
}

// Where Debian has the classes of languages.
const (
	kotlinHome    = "/usr/share/kotlin/kotlinc"
	kotlinJar     = kotlinHome + "/lib/kotlin-compiler.jar"
	kotlinLibrary = kotlinHome + "/lib/kotlin-stdlib.jar"
	kotlinClasses = kotlinJar + ":" + kotlinHome + "/lib/trove4j.jar:" + kotlinLibrary + ":" +
		kotlinHome + "/lib/kotlin-reflect.jar:" + kotlinHome + "/lib/kotlin-script-runtime.jar:" + kotlinHome + "/lib/annotations-13.0.jar"
	kotlinPlugins = kotlinHome + "/lib/kotlin-scripting-compiler.jar," + kotlinHome + "/lib/kotlin-scripting-impl.jar," +
		kotlinHome + "/lib/kotlin-scripting-common.jar," + kotlinHome + "/lib/kotlin-scripting-jvm.jar"
	scalaJar     = "/usr/share/java/scala-compiler.jar"
	scalaLibrary = "/usr/share/java/scala-library.jar"
	scalaClasses = scalaJar + ":/usr/share/java/scala-reflect.jar:" + scalaLibrary
)

// kotlin starts Kotlin's compiler.
func kotlin(args ...string) []string {
	return where(kotlinJar, archived("kotlinc", append([]string{"-cp", kotlinClasses, "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler", "-nowarn", "-kotlin-home", kotlinHome}, args...)...)...)
}

var kotlinVersion = where(kotlinJar, "java", "-cp", kotlinClasses, "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler", "-version")
