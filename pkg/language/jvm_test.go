package language

import (
	"strings"
	"testing"
)

// TestWhereJavaBegins checks that a Java program begins in the class with a main method, for any names of
// class, package and file.
func TestWhereJavaBegins(t *testing.T) {
	t.Parallel()
	const main = "public static void main(String[] args) { }"
	for name, c := range map[string]struct {
		language, source string
		file, class      string
	}{
		"main":                  {"java", "class Main { " + main + " }", "Main.java", "Main"},
		"public":                {"java", "public class Main { " + main + " }", "Main.java", "Main"},
		"another public class":  {"java", "public class Solution { " + main + " }", "Solution.java", "Solution"},
		"another class":         {"java", "class Solution { " + main + " }", "Main.java", "Solution"},
		"package":               {"java", "package com.example.app;\npublic class Solution { " + main + " }", "Solution.java", "com.example.app.Solution"},
		"several":               {"java", "class A { void f() {} }\nclass B { " + main + " }\nclass C { }", "Main.java", "B"},
		"helper before Main":    {"java", "class Node { " + main + " }\nclass Main { " + main + " }", "Main.java", "Main"},
		"public helper":         {"java", "public class Helper { }\nclass App { " + main + " }", "Helper.java", "App"},
		"record":                {"java", "public record App(int x, int y) { " + main + " }", "App.java", "App"},
		"enum":                  {"java", "public enum App { A, B; " + main + " }", "App.java", "App"},
		"interface":             {"java", "interface App { static void main(String... a) { } }", "Main.java", "App"},
		"final, annotated":      {"java", "@SuppressWarnings({\"all\", \"}\"})\n@Deprecated\npublic final strictfp class App { @Deprecated final public static synchronized void main(final String a[]) { } }", "App.java", "App"},
		"generic":               {"java", "public class App<T extends Comparable<T>> extends Object implements Runnable { public void run() {} " + main + " }", "App.java", "App"},
		"comments and strings":  {"java", "// public class No { static void main(\n/* class No2 { public static void main( } */\nclass App { String s = \"class X {\"; char c = '{', d = '\\''; String t = \"\"\"\n  } class Y {\n\"\"\"; " + main + " }", "Main.java", "App"},
		"nested":                {"java", "public class Outer { static class Inner { " + main + " } public static void main(String[] a) { Inner.main(a); } }", "Outer.java", "Outer"},
		"only nested":           {"java", "class Outer { static class Main { " + main + " } }", "Main.java", "Outer"},
		"instance main":         {"java", "class A { void main(String[] a) { } }\nclass B { " + main + " }", "Main.java", "B"},
		"call of main":          {"java", "class A { void f() { main(null); } }\nclass B { " + main + " }", "Main.java", "B"},
		"no main":               {"java", "class A { }", "Main.java", "A"},
		"inherited main":        {"java", "class Base { " + main + " }\npublic class Main extends Base { }", "Main.java", "Base"},
		"byte order mark":       {"java", "\ufeffpublic class App { " + main + " }", "App.java", "App"},
		"module import":         {"java", "import java.util.*;\nimport static java.lang.Math.max;\npublic class App { " + main + " }", "App.java", "App"},
		"letters":               {"java", "public class Größe { " + main + " }", "Größe.java", "Größe"},
		"nothing":               {"java", "", "Main.java", "Main"},
		"unfinished":            {"java", "public class App { \"", "App.java", "App"},
		"tests":                 {"junit", "public class CalculatorTest { @Test void f() { } }", "CalculatorTest.java", "CalculatorTest"},
		"scala":                 {"scala", "object Main { def main(args: Array[String]): Unit = println(1) }", "Main.scala", "Main"},
		"scala, another object": {"scala", "case class P(x: Int)\nobject Solution {\n  def main(args: Array[String]): Unit = { println('a', 'b') }\n}", "Main.scala", "Solution"},
		"scala, App":            {"scala", "package a.b\n\nobject Hello extends App {\n  println(1)\n}", "Main.scala", "a.b.Hello"},
		"scala, with App":       {"scala", "object H\n  extends Serializable with App {\n}", "Main.scala", "H"},
		"scala, companion":      {"scala", "class Main(x: Int)\nobject Util { def f(x: Int) = x }\nobject Run { def main(a: Array[String]) { } }", "Main.scala", "Run"},
		"kotlin":                {"kotlin", "\ufefffun main() { }", "Main.kt", ""},
	} {
		l, err := Find(c.language)
		if err != nil {
			t.Fatal(err)
		}
		file, class, sources := l.Arrange("", map[string]string{l.File: c.source})
		if file != c.file || class != c.class || len(sources) != 1 || sources[file] != strings.TrimPrefix(c.source, "\ufeff") {
			t.Errorf("%s: %s, %s, %q; want %s, %s", name, file, class, sources, c.file, c.class)
		}
	}
}

func TestJavaOfSeveralFiles(t *testing.T) {
	t.Parallel()
	l, err := Find("java")
	if err != nil {
		t.Fatal(err)
	}
	const main = "public static void main(String[] args) { }"
	for name, c := range map[string]struct {
		main        string
		sources     map[string]string
		file, class string
	}{
		"by its content":      {"", map[string]string{"src/app/Start.java": "package app; public class Start { " + main + " }", "src/app/Other.java": "package app; class Other { }"}, "src/app/Start.java", "app.Start"},
		"named":               {"b/B.java", map[string]string{"a/A.java": "package a; public class A { " + main + " }", "b/B.java": "package b; public class B { " + main + " }"}, "b/B.java", "b.B"},
		"Main":                {"", map[string]string{"A.java": "class A { " + main + " }", "Main.java": "class Main { " + main + " }"}, "Main.java", "Main"},
		"two, none of which":  {"", map[string]string{"A.java": "class A { " + main + " }", "B.java": "class B { " + main + " }"}, "Main.java", "Main"},
		"named after another": {"", map[string]string{"Main.java": "public class Solution { " + main + " }", "in.txt": "\ufeffpublic class X"}, "Solution.java", "Solution"},
		"the name is taken":   {"", map[string]string{"Main.java": "public class A { " + main + " }", "A.java": "class B { }"}, "Main.java", "A"},
	} {
		file, class, sources := l.Arrange(c.main, c.sources)
		if file != c.file || class != c.class || len(sources) != len(c.sources) {
			t.Errorf("%s: %s, %s, %q; want %s, %s", name, file, class, sources, c.file, c.class)
		}
		if text, ok := c.sources["in.txt"]; ok && sources["in.txt"] != text {
			t.Errorf("%s: another file was changed to %q", name, sources["in.txt"])
		}
	}
}
