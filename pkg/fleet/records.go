package fleet

import (
	"encoding/json"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// StoredPolicy is one version of a named policy.
type StoredPolicy struct {
	Name      string          `json:"name"`
	Version   int             `json:"version"`
	Policy    json.RawMessage `json:"policy"`
	CreatedAt time.Time       `json:"created_at"`
}

// StoredSecret is a secret without its text.
type StoredSecret struct {
	Name      string    `json:"name"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Executed is the record of an execution.
type Executed struct {
	Session   job.ID          `json:"-"`
	ID        job.ID          `json:"id"`
	Code      string          `json:"code"`
	Result    json.RawMessage `json:"result"` // JSON of job.Execute
	CreatedAt time.Time       `json:"created_at"`
}
