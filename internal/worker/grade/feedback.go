package grade

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-run/assay/internal/worker/grade/value"
	"github.com/assay-run/assay/pkg/job"
)

// maxFeedback limits the lines of one result, maxLine one line, and maxSentence a part of one, in
// bytes.
const (
	maxFeedback = 20
	maxLine     = 1000
	maxSentence = 600
)

// feedback returns a line for each kind of failure, for the author of the next attempt. The lines
// contain no times and no addresses, so the same mistake gives the same lines.
func feedback(cases []job.CaseResult) []string {
	var lines []string
	more := map[int]int{} // by line, the number of further cases of its kind
	seen := map[string]int{}
	for _, c := range cases {
		if c.Passed || c.Outcome == job.OutcomeCanceled {
			continue
		}
		kind := kindOf(&c)
		if n, ok := seen[kind]; ok {
			more[n]++
			continue
		}
		seen[kind] = len(lines)
		lines = append(lines, oneLine(c.Name+": "+stopped.ReplaceAllString(c.Message, "")))
	}
	for n, cases := range more {
		lines[n] += fmt.Sprintf(" [and %d more]", cases)
	}
	if len(lines) > maxFeedback {
		lines = append(lines[:maxFeedback], "more cases failed")
	}
	return lines
}

// stopped matches the time of a stopped case, which differs from run to run.
var stopped = regexp.MustCompile(` \(stopped after [0-9.µmsh]+\)$`)

// raisedAt matches the type and line of an exception in a message.
var raisedAt = regexp.MustCompile(`(?s)^raised ([\w.]+)(?:: .*)? at line ([0-9]+)(?:: | \(|$)`)

// kindOf returns an equal key for failures of one kind: exceptions of one type at one line of the
// solution with any arguments, time-outs, and equal messages.
func kindOf(c *job.CaseResult) string {
	switch _, message, called := strings.Cut(c.Message, "): "); {
	case c.Outcome == job.TimedOut:
		return string(job.TimedOut)
	case c.Outcome == job.Exception && called:
		if m := raisedAt.FindStringSubmatch(message); m != nil {
			return m[1] + " at line " + m[2]
		}
	}
	return c.Message
}

// oneLine converts text to one line of at most maxLine bytes. Line ends become blanks. Invisible
// characters are escaped, except blanks.
func oneLine(s string) string {
	s = lineEnds.ReplaceAllString(strings.Trim(strings.ToValidUTF8(s, "�"), " \t\r\n"), " ")
	if strings.ContainsFunc(s, isUnprintable) {
		var b strings.Builder
		for _, r := range s {
			if isUnprintable(r) {
				b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
			} else {
				b.WriteRune(r)
			}
		}
		s = b.String()
	}
	return job.Clip(s, maxLine)
}

var lineEnds = regexp.MustCompile(`\s*[\r\n]\s*`)

func isUnprintable(r rune) bool { return !strconv.IsPrint(r) }

// short returns s cut to one sentence, or other if it is empty.
func short(s, other string) string {
	if s = oneLine(s); s == "" {
		return other
	}
	return job.Clip(s, maxSentence)
}

// hints explains the usual meaning of exception classes to the author of the code.
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

// hint returns the hint for an exception's class or for its nearest base class with one.
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

// explain describes the exception, its location and its usual meaning.
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

// unloadedMessage returns why a solution could not be loaded.
func unloadedMessage(stage string, e *exception) string {
	switch stage {
	case "setup":
		return "setup of the tests " + e.explain()
	case "function":
		return "the function is missing: " + e.String()
	}
	return "the solution cannot be loaded: it " + e.explain()
}

// typeHint describes a difference in types only.
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

// call formats the call of a case.
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

// trimIt removes the leading "it" from a message of the runtime, to embed it in another message.
func trimIt(s string) string { return strings.TrimPrefix(s, "it ") }

// article puts a or an before the name of a type.
func article(name string) string {
	name = short(name, "?")
	if strings.ContainsRune("aeiouAEIOU", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}
