// Package callback reports finished batches: it sends one signed POST to the URL of the batch, and
// retries until the answer is 2xx.
//
// Each pending callback is a row of the store. One sender at a time takes it under a lease, so the
// number of dispatchers does not matter, and neither does the death of one. The receiver gets a
// callback at least once: if the answer is lost, the callback is sent again. The receiver
// recognizes duplicates by the delivery ID.
//
// # Request
//
// POST, application/json, in the format of the Standard Webhooks specification, so its libraries
// can verify it:
//
//	webhook-id: 0b6f…                         the delivery, the same at every try
//	webhook-timestamp: 1767225600             when this try was made, Unix seconds
//	webhook-signature: v1,K5oZfzN95Z9UVu1E…   base64 of HMAC-SHA256
//
// The signature covers ID, timestamp and body, joined with dots. The key is the value of the
// tenant's secret. If the value begins with whsec_, the rest is base64. Without a secret there is
// no signature.
//
// # Allowed addresses
//
// The tenant chooses the URL, and the request comes from inside the operator's network. So the
// dialled address is checked after the name was resolved: special-purpose ranges (package netrule)
// are rejected unless the operator allowed them. Redirects are not followed, and proxies of the
// environment are not used. The tenant sees only the kind of a failure and the status, never a body
// or an address.
package callback
