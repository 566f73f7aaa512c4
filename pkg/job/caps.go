package job

// LabelCaps limits concurrent jobs by label. It maps a label to the most jobs that may be
// dispatched or running at once with the same value of this label.
type LabelCaps map[string]int

// MaxLabelCaps is the highest number of labels with a cap in one place.
const MaxLabelCaps = 8

// Validate checks caps from outside. Its errors are *FieldError under field.
func (c LabelCaps) Validate(field string) error {
	if len(c) > MaxLabelCaps {
		return Invalid(field, "caps %d labels; at most %d", len(c), MaxLabelCaps)
	}
	return each(field, c, func(label string, most int) string {
		if p := badName(label, MaxName); p != "" {
			return "the label " + p
		}
		if most < 1 || most > 1_000_000 {
			return "must be 1 to 1000000 jobs at once"
		}
		return ""
	})
}
