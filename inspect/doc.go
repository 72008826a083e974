// Package inspect reads a whole cluster the way HAMi's scheduler and the nodes'
// device plugins do: which GPUs there are, who holds what of them, and what in
// all that cannot be right.
//
//   - [New] makes a [Cluster] of nodes and pods as the API server returns them.
//   - [Cluster.All] yields what is wrong, each [Problem] with its remedy.
//   - [Cluster.Explain] says of one pod why it is pending or where it landed,
//     and what smaller request would fit.
//
// The package talks to no cluster and reads no files; it changes nothing it is
// given, and the same objects at the same time give the same answer. All of the
// input may be hostile: an annotation that cannot be read is a problem of its
// object and hides nothing of any other.
//
// A snapshot is taken while things happen: a pod between its binding and the
// device plugin's answer has no compute units yet, its node is locked, and that
// is how it should be. Such states become problems only after a time, see
// [Options].
package inspect
