// Package k8s tests the Helm chart: its settings against the programs, its rendered objects, and an
// installation on a cluster.
//
// The cheap part runs with all other tests and needs nothing. `make test-k8s` renders the values in
// values/ with helm. If KUBECONFIG names an API server, it validates each of them there. If
// ASSAY_LOAD_IMAGE is a command that loads an image archive into the cluster's nodes
// (docs/operate/kubernetes.md), it also installs the chart.
package k8s
