package job

// LabelCaps bounds jobs that have a label in common: label → the most jobs with
// the same value of it that may be dispatched or running at once.
type LabelCaps map[string]int

// MaxLabelCaps is how many labels may be capped in one place.
const MaxLabelCaps = 8

// Validate judges caps that came from somebody; field is where they stood. Its
// errors are *FieldError.
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
