package job

import "cmp"

// Match is a rule that compares the value of a case with the expected one.
type Match string

// The rules.
const (
	MatchPython Match = "python" // by Python's ==; the default
	MatchJSON   Match = "json"   // tuples equal lists, and keys of dicts are compared as JSON text
)

// Matching is how one case compares values.
type Matching struct {
	Match Match
	// Floats may differ by Absolute, or by Relative times the expected number. Larger allows a
	// difference of Larger × max(1, |expected|).
	Larger, Absolute, Relative float64
}

// MatchingOf returns how a case compares values: by its own fields or, by default, those of the
// tests.
func (t *Tests) MatchingOf(c *Case) Matching {
	m := Matching{Match: cmp.Or(c.Match, t.Match, MatchPython), Larger: c.Tolerance, Absolute: c.AbsoluteTolerance, Relative: c.RelativeTolerance}
	if m.Larger == 0 && m.Absolute == 0 && m.Relative == 0 {
		m.Larger, m.Absolute, m.Relative = t.Tolerance, t.AbsoluteTolerance, t.RelativeTolerance
	}
	return m
}

// badMatching checks the fields of a case or of tests.
func badMatching(m Match, both, absolute, relative float64) (field, problem string) {
	if m != "" && m != MatchPython && m != MatchJSON {
		return "match", "must be python or json"
	}
	for _, t := range []struct {
		field string
		value float64
	}{{"tolerance", both}, {"absolute_tolerance", absolute}, {"relative_tolerance", relative}} {
		if !(t.value >= 0 && t.value <= 1e300) {
			return t.field, "must not be negative"
		}
	}
	if both != 0 && absolute+relative != 0 {
		return "tolerance", "is absolute and relative at once: leave it out beside absolute_tolerance and relative_tolerance"
	}
	return "", ""
}

// badMatching checks the defaults of the cases.
func (t *Tests) badMatching() (field, problem string) {
	if len(t.Cases) == 0 {
		switch {
		case t.Match != "":
			return "match", "is for cases, and there are none"
		case t.Tolerance+t.AbsoluteTolerance+t.RelativeTolerance != 0:
			return "tolerance", "is for cases, and there are none; a stdio case has its own, with compare: floats"
		}
	}
	return badMatching(t.Match, t.Tolerance, t.AbsoluteTolerance, t.RelativeTolerance)
}
