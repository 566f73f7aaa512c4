package placement

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// Languages is the first version of the protocol (package control) with support for:
//
//   - languages of the catalogue
//   - checkers and interactors
//   - limits by language
//   - cases as blobs or binary data
const Languages = 3

// Values is the first version whose workers support tagged variables, rules for comparing values,
// case_wall, and checks that share a process with their solution.
const Values = 4

// speaks is the prefix of protocol labels. A worker has a label for each version that it supports;
// a job requires one. Labels work because every release matches them, including releases before
// Languages.
const speaks = "assay:protocol-"

// Speaking returns labels plus one protocol label for each version up to version. It does not
// change the operator's labels.
func Speaking(labels map[string]string, version int) map[string]string {
	if version < Languages {
		return labels
	}
	all := maps.Clone(labels)
	if all == nil {
		all = map[string]string{}
	}
	for v := Languages; v <= version; v++ {
		all[speaks+strconv.Itoa(v)] = ""
	}
	return all
}

// IsVersion reports whether a label is a protocol label.
func IsVersion(label string) bool { return strings.HasPrefix(label, speaks) }

// VersionOf returns the protocol version that the workers for a job need, or 0 for any. An older
// worker ignores fields that it does not support, and its result would be wrong. So every new field
// of the spec that changes a result must be listed here.
func VersionOf(s *job.Spec) int {
	t := s.Program.Tests
	switch {
	case s.Program.Python != nil && s.Program.Python.Tagged, t != nil && needsValues(t):
		return Values
	case s.Program.Code != nil:
		return Languages
	case t == nil:
		return 0
	case t.Language != "" || t.Files != nil || t.Compile != nil:
		return Languages
	case t.Checker != nil || t.Interactor != nil || len(t.Limits) > 0 || slices.ContainsFunc(t.Stdio, isNew):
		return Languages
	}
	return 0
}

// needsValues reports whether tests use fields of version Values.
func needsValues(t *job.Tests) bool {
	return t.CaseWall != 0 || t.Process != "" || compares(t.Match, t.Tolerance, t.AbsoluteTolerance, t.RelativeTolerance) ||
		slices.ContainsFunc(t.Cases, func(c job.Case) bool {
			return compares(c.Match, c.Tolerance, c.AbsoluteTolerance, c.RelativeTolerance)
		})
}

// compares reports whether a rule for comparing values is set.
func compares(match job.Match, tolerances ...float64) bool {
	return match != "" || slices.ContainsFunc(tolerances, func(t float64) bool { return t != 0 })
}

// isNew reports whether a case uses fields of version Languages.
func isNew(s job.Stdio) bool {
	return s.StdinBase64 != "" || s.StdinBlob != "" || s.StdoutBase64 != "" || s.StdoutBlob != "" ||
		s.Compare == job.CompareUnordered || s.AbsoluteTolerance != 0 || s.RelativeTolerance != 0 || s.IgnoreCase
}

// labelsOf returns the labels that a worker needs for a job.
func labelsOf(s *job.Spec) map[string]string {
	version := VersionOf(s)
	if version == 0 {
		return s.Requires
	}
	all := map[string]string{}
	maps.Copy(all, s.Requires)
	all[speaks+strconv.Itoa(version)] = ""
	return all
}

// labelText describes a label for people.
func labelText(k, v string) string {
	if version, ours := strings.CutPrefix(k, speaks); ours {
		return "a release that supports all fields of the job, version " + version + " of the protocol"
	}
	return fmt.Sprintf("label %s=%s", k, v)
}
