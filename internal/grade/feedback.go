package grade

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/assay-run/assay/internal/grade/value"
	"github.com/assay-run/assay/pkg/job"
)

// maxFeedback bounds the lines of one result, and maxLine one line in bytes.
const (
	maxFeedback = 20
	maxLine     = 600
)

// feedback is one line for each failure, for whoever writes the next attempt. It
// has no times and no addresses: the same mistake makes the same line.
func feedback(cases []job.CaseResult) []string {
	var lines []string
	seen := map[string]bool{}
	for _, c := range cases {
		if c.Passed || c.Outcome == job.OutcomeCanceled {
			continue
		}
		if seen[c.Message] { // such as a syntax error, which fails every case
			continue
		}
		seen[c.Message] = true
		if len(lines) == maxFeedback {
			lines = append(lines, "more cases failed")
			break
		}
		lines = append(lines, oneLine(c.Name+": "+c.Message))
	}
	return lines
}

// oneLine makes text one line of at most maxLine bytes.
func oneLine(s string) string {
	return job.Clip(strings.Join(strings.Fields(strings.ToValidUTF8(s, "�")), " "), maxLine)
}

// short returns s cut to a sentence, or other if it is empty.
func short(s, other string) string {
	if s = oneLine(s); s == "" {
		return other
	}
	return s
}

// hints say what the class of an exception usually means for who wrote the code.
var hints = map[string]string{
	"SyntaxError":         "the code cannot be parsed",
	"IndentationError":    "the indentation is wrong",
	"TabError":            "tabs and blanks are mixed",
	"NameError":           "define or import the name",
	"UnboundLocalError":   "the variable has no value on this path",
	"ImportError":         "the module does not have that name",
	"ModuleNotFoundError": "the module is not installed here: use the standard library",
	"TypeError":           "an operation got a value of the wrong type, or a call the wrong arguments",
	"AttributeError":      "the object has no such attribute: check its type",
	"IndexError":          "an index is outside of the sequence: check its bounds",
	"KeyError":            "the key is not in the dict: use get, or check first",
	"ValueError":          "a value is not acceptable",
	"ZeroDivisionError":   "handle a divisor of zero",
	"RecursionError":      "the recursion has no end, or needs a base case",
	"MemoryError":         "it needs too much memory",
	"OverflowError":       "a number is too large",
	"EOFError":            "it reads input, and there is none",
	"SystemExit":          "it exits instead of returning a value",
	"StopIteration":       "an iterator was at its end",
	"AssertionError":      "an assert of the code itself does not hold",
	"OSError":             "the system refuses it: files and other resources are limited here",
	"FileNotFoundError":   "there is no such file here",
	"PermissionError":     "that is not allowed here",
	"TimeoutError":        "it waited for something that did not come in time",
}

// hint is that of an exception's class or, if there is none, of the nearest that it is
// derived from and that says more than that it is an error.
func (e *exception) hint() string {
	for _, name := range append([]string{e.Type}, e.MRO...) {
		if h := hints[name]; h != "" {
			return h
		}
	}
	return ""
}

func (e *exception) String() string {
	if e.Message == "" {
		return short(e.Type, "an exception")
	}
	return oneLine(e.Type + ": " + e.Message)
}

// explain says what was raised, where, and what that usually means.
func (e *exception) explain() string {
	s := "raised " + e.String()
	if e.Line > 0 {
		s += fmt.Sprintf(" at line %d", e.Line)
		if e.Text != "" {
			s += ": " + oneLine(e.Text)
		}
	}
	if h := e.hint(); h != "" {
		s += " (" + h + ")"
	}
	return s
}

// unloadedMessage says why a solution could not be loaded.
func unloadedMessage(stage string, e *exception) string {
	switch stage {
	case "setup":
		return "setup of the tests " + e.explain()
	case "function":
		return "the function is missing: " + e.String()
	}
	return "the solution cannot be loaded: it " + e.explain()
}

// typeHint points out a difference that is one of types only.
func typeHint(got, want value.Value) string {
	switch {
	case got.Kind == value.Other:
		return " (" + article(got.TypeName()) + " is compared with nothing: return a plain value)"
	case got.Kind != want.Kind && got.HasItemsOf(want):
		return fmt.Sprintf(" (%s is not %s)", article(got.TypeName()), article(want.TypeName()))
	case got.Kind == value.None && want.Kind != value.None:
		return " (is there a return on every path?)"
	case got.Kind == value.Str && want.Kind != value.Str && got.Text == value.Repr(want):
		return " (a str is not " + article(want.TypeName()) + ")"
	}
	return ""
}

// call writes the call that a case makes.
func call(function string, c *job.Case) string {
	var args []string
	for _, raw := range c.Args {
		args = append(args, argument(raw))
	}
	for _, k := range slices.Sorted(maps.Keys(c.Kwargs)) {
		args = append(args, k+"="+argument(c.Kwargs[k]))
	}
	return function + "(" + job.Clip(strings.Join(args, ", "), 200) + ")"
}

func argument(raw []byte) string {
	v, err := value.Decode(raw)
	if err != nil {
		return "?"
	}
	return value.Repr(v)
}

// trimIt makes a message of the runtime, which begins with "it", part of another.
func trimIt(s string) string { return strings.TrimPrefix(s, "it ") }

// article puts a or an before the name of a type.
func article(name string) string {
	name = short(name, "?")
	if strings.ContainsRune("aeiouAEIOU", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}
