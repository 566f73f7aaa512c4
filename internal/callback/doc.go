// Package callback tells others that a batch is done: one signed POST to the URL
// that came with the batch, made again until it is answered with 2xx.
//
// What is left to tell is a row of the store, taken under a lease by one sender at
// a time, so neither the death of a dispatcher nor the number of them matters. The
// receiver gets it at least once: an answer that is lost on the way is as good as
// none. It knows by the delivery's id what it has seen.
//
// # What is sent
//
// POST, application/json, as the Standard Webhooks specification has it, so that
// its libraries verify it:
//
//	webhook-id: 0b6f…                         the delivery, the same at every try
//	webhook-timestamp: 1767225600             when this try was made, Unix seconds
//	webhook-signature: v1,K5oZfzN95Z9UVu1E…   base64 of HMAC-SHA256
//
// What is signed is id, timestamp and body with dots between them. The key is the
// value of the tenant's secret; one that begins with whsec_ is base64 after that.
// Without a secret there is no signature.
//
// # Where it goes
//
// A URL is a tenant's word, and the request is made from inside the operator's
// network. The address that is really dialled is judged, after the name was
// resolved: special-purpose ranges (package netrule) are refused unless the
// operator has named them. Redirects are not followed, proxies of the environment
// are not used, and what the tenant gets to read of a failure is its kind and the
// status, never a body or an address.
package callback
