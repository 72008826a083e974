// Package cluster runs a real Kubernetes control plane for tests: one etcd and
// one kube-apiserver on loopback, with RBAC on and no other part of Kubernetes.
//
//	c, err := cluster.Start(ctx, cluster.Options{})
//	if err != nil {
//		return err
//	}
//	defer c.Stop()
//	client, err := kubernetes.NewForConfig(c.Admin())
//
// The API server is built once from the module k8s.io/kubernetes, at [Version],
// and kept in the user's cache folder; this takes some minutes on a small
// machine, later starts a few seconds. etcd comes from the system
// (Debian: etcd-server). A part that is missing is an error, never a skip.
//
// There is no controller manager: nothing makes service accounts, collects
// garbage or evicts pods. There is no admission by service account either, so
// pods need none; [Cluster.ServiceAccount] makes accounts with real tokens for
// testing RBAC rules.
//
// Both processes die with the test process, however that ends.
package cluster
