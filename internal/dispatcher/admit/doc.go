// Package admit turns the bytes of a request into accepted jobs.
//
// It decodes strictly and fills in a batch's defaults. It resolves the policy, inline or stored, under the tenant's
// ceiling. It moves large inputs to the object store and picks the class. The resulting spec names every limit of the
// job, so later changes to stored policies and defaults do not affect it.
//
// Rejections name the field, in a batch the line, and the remedy. The package writes nothing to the store. A rejected
// request may leave inputs in the object store.
package admit
