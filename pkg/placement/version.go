package placement

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// Languages is the first version of the protocol (package control) whose workers know programs in languages of the
// catalogue, checkers and interactors, limits by language, and cases that are blobs or other bytes than text.
const Languages = 3

// Values is the first version whose workers know tagged variables, rules by which values are compared, case_wall, and checks
// that share a process with their solution.
const Values = 4

// speaks begins the labels by which workers say which versions they speak, and jobs which one they need. They are labels
// because every release understands those: dispatchers and workers of the release before Languages keep to them, too.
const speaks = "assay:protocol-"

// Speaking returns the labels of a worker that speaks versions of the protocol up to one: those that its operator gave it,
// which are not changed, and one for each version that a job may need.
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

// IsVersion says whether a label is one that Speaking adds.
func IsVersion(label string) bool { return strings.HasPrefix(label, speaks) }

// VersionOf returns the version of the protocol that the workers for a job have to speak; 0: any. Workers of an older
// release read over the fields that they do not know, and what they then say of the program is wrong. So whatever
// comes to the spec and changes what becomes of a program has to be here.
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

// needsValues reports whether tests have fields that came with Values.
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

// isNew says whether a case has what came with Languages.
func isNew(s job.Stdio) bool {
	return s.StdinBase64 != "" || s.StdinBlob != "" || s.StdoutBase64 != "" || s.StdoutBlob != "" ||
		s.Compare == job.CompareUnordered || s.AbsoluteTolerance != 0 || s.RelativeTolerance != 0 || s.IgnoreCase
}

// labelsOf returns the labels that a worker for a job has to have.
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

// labelText says for people what a label is about.
func labelText(k, v string) string {
	if version, ours := strings.CutPrefix(k, speaks); ours {
		return "a release that knows all that the job says, version " + version + " of the protocol"
	}
	return fmt.Sprintf("label %s=%s", k, v)
}
