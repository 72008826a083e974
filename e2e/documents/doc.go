// Package documents runs the commands of the folder docs that need a cluster,
// with kubectl and against a real API server that has a node, a pod and what
// the chart installs. What needs a kubelet, helm or docker is not run here;
// package docs holds it against the chart.
package documents
