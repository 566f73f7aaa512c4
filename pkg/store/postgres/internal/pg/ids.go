package pg

import (
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
)

// UUID converts an id that comes from inside and is therefore valid; a bad one
// becomes NULL, which no row matches.
func UUID(id job.ID) pgtype.UUID {
	var u pgtype.UUID
	_ = u.Scan(string(id))
	return u
}

// UUIDs converts ids as UUID does.
func UUIDs(ids []job.ID) []pgtype.UUID {
	out := make([]pgtype.UUID, len(ids))
	for i, id := range ids {
		out[i] = UUID(id)
	}
	return out
}

// NilID stands for "no batch" in the tables.
const NilID job.ID = "00000000-0000-0000-0000-000000000000"

// LastID is the largest of all: a list that begins before it begins with the last.
const LastID job.ID = "ffffffff-ffff-ffff-ffff-ffffffffffff"

// BatchID is empty for a job without a batch.
func BatchID(u pgtype.UUID) job.ID {
	if u.Bytes == [16]byte{} {
		return ""
	}
	return JobID(u)
}

// JobID is the id as the rest of the program has it.
func JobID(u pgtype.UUID) job.ID { return job.ID(u.String()) }

// IDBefore returns the greatest id below id, so "greater than IDBefore(id)" includes id. It returns NilID unchanged.
func IDBefore(id job.ID) job.ID {
	u := UUID(id)
	if u.Bytes == [16]byte{} {
		return NilID
	}
	for i := len(u.Bytes) - 1; i >= 0; i-- {
		if u.Bytes[i]--; u.Bytes[i] != 0xff {
			break
		}
	}
	return JobID(u)
}

// IDAfter returns the next id that there could be.
func IDAfter(id job.ID) job.ID {
	u := UUID(id)
	for i := len(u.Bytes) - 1; i >= 0; i-- {
		if u.Bytes[i]++; u.Bytes[i] != 0 {
			break
		}
	}
	return JobID(u)
}
