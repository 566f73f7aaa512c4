package job

import "time"

// Callback is whom to tell when a batch is done.
type Callback struct {
	URL string `json:"url"` // http or https
	// SecretRef names the tenant's secret that signs what is sent; empty: unsigned.
	SecretRef string `json:"secret_ref,omitempty"`
}

// MaxCallbackURL is the longest URL of a callback, in bytes.
const MaxCallbackURL = 2048

// Delivery is a callback and how far it has come. It is open until one of
// DeliveredAt and GivenUpAt is set.
type Delivery struct {
	URL         string    `json:"url"`
	SecretRef   string    `json:"secret_ref,omitempty"`
	ID          string    `json:"id"`    // the same at every try: the receiver knows by it what it has seen
	Tries       int       `json:"tries"` // begun
	LastError   string    `json:"last_error,omitempty"`
	DeliveredAt time.Time `json:"delivered_at,omitzero"`
	GivenUpAt   time.Time `json:"given_up_at,omitzero"`
}
