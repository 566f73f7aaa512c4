package cell

import (
	"errors"
	"sync"
)

// cellUsers is how many users of the host a cell has besides its guest's: one for each concurrent
// box.
const cellUsers = 32 << 10

// users lends each box of a cell its own user, numbered from 1 to cellUsers. The kernel counts some
// resources only per user on the host.
type users struct {
	mu   sync.Mutex
	last int
	lent map[int]bool
}

var errUsers = errors.New("a cell has more boxes than users")

func (u *users) get() (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.lent == nil {
		u.lent = map[int]bool{}
	}
	if len(u.lent) >= cellUsers {
		return 0, errUsers
	}
	for {
		u.last = u.last%cellUsers + 1
		if !u.lent[u.last] {
			u.lent[u.last] = true
			return u.last, nil
		}
	}
}

// put returns the user of a box without processes.
func (u *users) put(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.lent, n)
}
