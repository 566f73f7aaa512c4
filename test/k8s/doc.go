// Package k8s tests the Helm chart: what it says against what the programs read, what it
// renders, and what becomes of that on a cluster.
//
// The cheap part runs with every other test and needs nothing. `make test-k8s` renders the
// values in values/ with helm, has the API server of KUBECONFIG, if there is one, try each
// of them, and installs the chart there, if ASSAY_LOAD_IMAGE is a command that makes the
// cluster's nodes have an image archive (docs/operations.md).
package k8s
