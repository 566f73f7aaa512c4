package job

import "time"

// Callback is an HTTP request that the dispatcher sends when a batch is done.
type Callback struct {
	URL string `json:"url"` // http or https
	// SecretRef names the tenant's secret that signs the request. Empty: unsigned.
	SecretRef string `json:"secret_ref,omitempty"`
}

// MaxCallbackURL is the longest URL of a callback, in bytes.
const MaxCallbackURL = 2048

// Delivery is a callback and its progress. It is open until DeliveredAt or GivenUpAt is set.
type Delivery struct {
	URL         string    `json:"url"`
	SecretRef   string    `json:"secret_ref,omitempty"`
	ID          string    `json:"id"`    // the same at every try, so that the receiver can drop duplicates
	Tries       int       `json:"tries"` // tries begun
	LastError   string    `json:"last_error,omitempty"`
	DeliveredAt time.Time `json:"delivered_at,omitzero"`
	GivenUpAt   time.Time `json:"given_up_at,omitzero"`
}
