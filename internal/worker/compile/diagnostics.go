package compile

import (
	"regexp"
	"strings"

	"github.com/assay-run/assay/pkg/runtime"
)

// maxDiagnostics is the most messages of a compiler in a result.
const maxDiagnostics = 5

var (
	failure  = regexp.MustCompile(`(?i)\berror(?:\[\w+\])?:|\berror [A-Z]{1,4}\d+|^error\b|undefined reference to|multiple definition of`)
	warning  = regexp.MustCompile(`(?i)\bwarning\b`)
	summary  = regexp.MustCompile(`(?i)^\W*(?:\d+ errors?\b|collect2: |error: (?:aborting|could not compile)|error: ld returned|compilation (?:failed|terminated|aborted)|cannot continue)`)
	position = regexp.MustCompile(`^(?:\S+[:(]\d+|File "[^"]+", line \d+)`)
	untitled = regexp.MustCompile(`(?i)\berror:?(?: \[[\w-]+\])?:?$`)
	anything = regexp.MustCompile(`\S`)
	heading  = regexp.MustCompile(`^(?:#|In file included from|from |\S+: (?:In|At) |note:)`)
)

// diagnostics returns the errors of a compiler, at most maxDiagnostics, one line each. If no line
// looks like an error, it returns the first line with text.
func diagnostics(rep *runtime.Report) []string {
	lines := append(strings.Split(rep.Stderr.Text, "\n"), strings.Split(rep.Stdout.Text, "\n")...)
	for _, found := range [][]string{failures(lines), matching(lines, position), matching(lines, anything)} {
		if len(found) > 0 {
			return found[:min(len(found), maxDiagnostics)]
		}
	}
	return []string{plain(rep.Message)}
}

// failures returns the lines that are marked as errors, with the position or text on the next line.
func failures(lines []string) (found []string) {
	at := "" // the last line with only a position
	for i, line := range lines {
		line = strings.TrimSpace(line)
		if position.MatchString(line) && strings.HasSuffix(line, ":") {
			at = line
		}
		is, not := failure.FindStringIndex(line), warning.FindStringIndex(line)
		if is == nil || not != nil && not[0] < is[0] || summary.MatchString(line) {
			continue
		}
		next := nextLine(lines[i+1:])
		switch {
		case untitled.MatchString(line):
			line += " " + next
		case strings.HasPrefix(next, "--> "):
			line = strings.TrimPrefix(next, "--> ") + ": " + line
		case at != "" && strings.HasPrefix(strings.ToLower(line), "error"):
			line = at + " " + line
		}
		if found = append(found, plain(line)); len(found) == maxDiagnostics {
			break
		}
	}
	return found
}

// nextLine returns the first line with text.
func nextLine(lines []string) string {
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return ""
}

// matching returns the matching lines except headings and warnings.
func matching(lines []string, what *regexp.Regexp) (found []string) {
	for _, line := range lines {
		if line = strings.TrimSpace(line); what.MatchString(line) && !heading.MatchString(line) && !warning.MatchString(line) && !summary.MatchString(line) {
			found = append(found, plain(line))
		}
	}
	return found
}
