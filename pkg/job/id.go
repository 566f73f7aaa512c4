package job

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ID identifies a job, a batch or a session. It is a UUID version 7 in canonical text form (RFC
// 9562). IDs sort by creation time, and tables are partitioned by them. The last two digits of the
// fourth group are the number of the fleet that made the ID (Cell).
type ID string

// Lease is the fencing token of one attempt, from an increasing sequence. It guards every write of
// the attempt. Zero means no lease.
type Lease int64

// Generation counts how often a job was sent to the queue. It is part of the queue subject, so that
// a retry does not collide with an earlier message.
type Generation int32

var idState struct {
	sync.Mutex
	last uint64 // milliseconds<<12 | counter, strictly increasing
}

// cell is the number in the IDs that this process makes.
var cell atomic.Uint32

// SetCell sets the number of the fleet in all IDs that this process makes from now on. It is 0 before.
func SetCell(n uint8) { cell.Store(uint32(n)) }

// NewID returns a new ID. IDs made by one process are strictly increasing.
func NewID() ID {
	idState.Lock()
	now := uint64(time.Now().UnixMilli()) << 12
	if now <= idState.last {
		now = idState.last + 1
	}
	idState.last = now
	idState.Unlock()

	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], now>>12<<16|0x7000|now&0xfff)
	if _, err := rand.Read(b[8:]); err != nil {
		panic(fmt.Sprintf("job: no randomness: %v", err)) // crypto/rand never fails on Linux
	}
	b[8] = b[8]&0x3f | 0x80
	b[9] = uint8(cell.Load())
	return formatID(b)
}

// Cell returns the number of the fleet that made id, or 0 if id is not valid. IDs of releases
// that did not number fleets have a random number; see Cells.
func (id ID) Cell() uint8 {
	raw, err := parseID(string(id))
	if err != nil {
		return 0
	}
	return raw[9]
}

// Cells routes IDs to fleets.
type Cells struct {
	Fleets map[uint8]string // by the number in their IDs: any name, such as the URL of the API
	// Before Since there was one fleet, First, whose IDs had a random number.
	Since time.Time
	First string
}

// Of returns the fleet that made an ID. The error wraps ErrInvalid if id is not a valid ID, and ErrNotFound if no fleet has its number.
func (c Cells) Of(id ID) (fleet string, err error) {
	if _, err := parseID(string(id)); err != nil {
		return "", err
	}
	if id.Time().Before(c.Since) {
		return c.First, nil
	}
	fleet, ok := c.Fleets[id.Cell()]
	if !ok {
		return "", fmt.Errorf("%w: no fleet has the number %d of %s", ErrNotFound, id.Cell(), id)
	}
	return fleet, nil
}

// FirstIDAt returns the smallest ID that NewID can return at t. It is the bound of a time
// partition.
func FirstIDAt(t time.Time) ID {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(t.UnixMilli())<<16)
	return formatID(b)
}

// Time returns the creation time of id in milliseconds, or the zero time if id is not valid.
func (id ID) Time() time.Time {
	raw, err := parseID(string(id))
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(raw[:8]) >> 16))
}

// ParseID checks that s is a UUID in canonical text form.
// The error wraps ErrInvalid.
func ParseID(s string) (ID, error) {
	if _, err := parseID(s); err != nil {
		return "", err
	}
	return ID(s), nil
}

func (id ID) String() string { return string(id) }

func formatID(b [16]byte) ID {
	var out [36]byte
	hex.Encode(out[:8], b[:4])
	hex.Encode(out[9:13], b[4:6])
	hex.Encode(out[14:18], b[6:8])
	hex.Encode(out[19:23], b[8:10])
	hex.Encode(out[24:], b[10:])
	out[8], out[13], out[18], out[23] = '-', '-', '-', '-'
	return ID(out[:])
}

func parseID(s string) (b [16]byte, err error) {
	bad := Invalid("id", "must be a UUID such as 01932c07-8f6a-7c3e-9d2b-5a1f0e4c7b88")
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return b, bad
	}
	flat := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	for _, c := range flat {
		if c >= 'A' && c <= 'F' {
			return b, bad // one spelling per job
		}
	}
	if _, err := hex.Decode(b[:], []byte(flat)); err != nil {
		return b, bad
	}
	return b, nil
}
