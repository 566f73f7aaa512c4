package policy

import "github.com/assay-run/assay/pkg/job"

// CheckTests returns an error if a checker or interactor exceeds the ceiling. Its limits are
// separate from the job's policy, and a ceiling never lowers them.
func (c Ceiling) CheckTests(t *job.Tests) error {
	if t == nil {
		return nil
	}
	for field, checker := range map[string]*job.Checker{"checker": t.Checker, "interactor": t.Interactor} {
		switch at := "program.tests." + field; {
		case checker == nil:
		case c.Wall > 0 && checker.Wall > c.Wall:
			return job.Invalid(at+".wall", "%s is more than the %s that this tenant may have", checker.Wall, c.Wall)
		case c.Memory > 0 && checker.Memory > c.Memory:
			return job.Invalid(at+".memory", "%s is more than the %s that this tenant may have", checker.Memory, c.Memory)
		}
	}
	return nil
}
