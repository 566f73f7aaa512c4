package dispatcher

import (
	"cmp"
	"slices"

	"github.com/assay-run/assay/internal/dispatcher/fleet"
)

// mostNarrowed bounds the number of halvings.
const mostNarrowed = 10

// narrowing halves the window of a crew for each failed statement, so that the scheduler finds a size that the database can
// fill. Each successful statement doubles it again. Its keys are classes: crews change, and their classes keep the count.
type narrowing map[string]int

// halvings returns the number of halvings of a crew's window.
func (n narrowing) halvings(c fleet.Crew) (most int) {
	for _, class := range c.Classes {
		most = max(most, n[class])
	}
	return most
}

// window returns the narrowed window of a crew.
func (n narrowing) window(c fleet.Crew, full int) int {
	return max(full>>n.halvings(c), min(full, 1))
}

// note counts a statement for a crew.
func (n narrowing) note(c fleet.Crew, err error) {
	count := max(n.halvings(c)-1, 0)
	if err != nil {
		count = min(n.halvings(c)+1, mostNarrowed)
	}
	for _, class := range c.Classes {
		if count == 0 {
			delete(n, class)
		} else {
			n[class] = count
		}
	}
}

// sort puts crews with fewer failures first. It returns the counts of their classes, and so forgets other classes.
func (n narrowing) sort(crews []fleet.Crew) narrowing {
	counts := narrowing{}
	if len(n) == 0 {
		return counts
	}
	for _, c := range crews {
		for _, class := range c.Classes {
			if count := n[class]; count > 0 {
				counts[class] = count
			}
		}
	}
	slices.SortStableFunc(crews, func(a, b fleet.Crew) int { return cmp.Compare(n.halvings(a), n.halvings(b)) })
	return counts
}
