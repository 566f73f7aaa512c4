package turns

import "bytes"

// lineQueue is a heap of tenants; the first gets the next place.
type lineQueue []*line

func (q lineQueue) Len() int { return len(q) }

func (q lineQueue) Less(i, j int) bool {
	switch a, b := q[i], q[j]; {
	case a.key != b.key:
		return a.key < b.key
	case a.Waits != b.Waits:
		return a.Waits > b.Waits
	default:
		return a.ID < b.ID
	}
}

func (q lineQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *lineQueue) Push(x any)   { *q = append(*q, x.(*line)) }

func (q *lineQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// groupQueue is a heap of a tenant's groups: the one with the next turn is first.
type groupQueue []*turnGroup

func (q groupQueue) Len() int { return len(q) }

func (q groupQueue) Less(i, j int) bool {
	if q[i].key != q[j].key {
		return q[i].key < q[j].key
	}
	return bytes.Compare(q[i].id[:], q[j].id[:]) < 0
}

func (q groupQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *groupQueue) Push(x any)   { *q = append(*q, x.(*turnGroup)) }

func (q *groupQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
