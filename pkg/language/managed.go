package language

import (
	"slices"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// java returns the command line of a Java VM. Its default heap limit is a quarter of the host's
// memory, which may exceed the sandbox's. With the sandbox's memory as the limit, the VM collects
// garbage in time. The kernel ends a program that needs more as out of memory, even if it catches
// all exceptions.
func java(args ...string) []string {
	return append([]string{"java", "-Xmx{memory}m", "-Xms16m", "-Xss64m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xshare:auto"}, args...)
}

// archived is java for short-lived tools, which do not benefit from the second compiler of the VM.
// Their classes are in an archive of this name, made by images/polyglot/customize. Without the
// archive they start more slowly.
func archived(name string, args ...string) []string {
	return java(append([]string{"-XX:TieredStopAtLevel=1", "-XX:SharedArchiveFile=/usr/share/assay/" + name + ".jsa"}, args...)...)
}

// javac compiles into {out} with the given class path.
func javac(classes ...string) []string {
	return archived("javac", slices.Concat([]string{"-m", "jdk.compiler/com.sun.tools.javac.Main", "-encoding", "UTF-8", "-proc:none", "-nowarn"},
		classes, []string{"-d", "{out}", "{files}"})...)
}

// Assertions are enabled, because tests may consist of them. Without this option the VM skips them,
// and wrong programs pass. Kotlin's assertions are functions of its library.
const (
	asserts       = "-ea"
	kotlinAsserts = "-ea:kotlin..."
)

// requireFile runs a command only if a file exists. Otherwise Java would report a missing class and the
// program would be blamed. The exit code is 127, as in a shell.
func requireFile(file string, argv ...string) []string {
	return append([]string{"sh", "-c", `test -e "$0" || { echo "there is no $0" >&2; exit 127; }; exec "$@"`, file}, argv...)
}

// Minimum memory of a Java VM that is idle, and of one during a compilation.
const (
	javaMemory   = 128 * job.MiB
	javacMemory  = 512 * job.MiB
	kotlinMemory = 1 * job.GiB
	javaThreads  = 32

	kotlinScriptMemory = 256 * job.MiB
)

// managed lists the languages with a virtual machine.
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
			// The archive records the entry class, for any name of file and package.
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
			Argv:   requireFile(scalaJar, archived("scalac", "-cp", scalaClasses, "scala.tools.nsc.Main", "-usejavacp", "-d", "{out}", "{files}")...),
			Memory: kotlinMemory, Processes: javaThreads, Wall: 120 * time.Second,
		},
		Run:     Step{Argv: java("-cp", "{out}:"+scalaLibrary, "{class}"), Memory: javaMemory, Processes: javaThreads},
		Version: []string{"scalac", "-version"},
	},
}

// Debian's locations of class files.
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

// kotlin returns the command line of Kotlin's compiler.
func kotlin(args ...string) []string {
	return requireFile(kotlinJar, archived("kotlinc", append([]string{"-cp", kotlinClasses, "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler", "-nowarn", "-kotlin-home", kotlinHome}, args...)...)...)
}

var kotlinVersion = requireFile(kotlinJar, "java", "-cp", kotlinClasses, "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler", "-version")
