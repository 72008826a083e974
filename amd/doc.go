// Package amd is the scheduler's side of sharing AMD GPUs under HAMi: it
// completes and refuses pods at admission, reads what a container asks for,
// picks GPUs on a node, ranks nodes and keeps the books of who holds what.
//
// A [Devices] holds the configuration and is made once:
//
//   - [Devices.Admit] is the admission webhook's mutation of a pod.
//   - [Devices.Request] reads one container's resources.
//   - [Devices.NodeDevices] reads a node's hami.io/node-amd-register.
//   - [Devices.Fit] picks devices for one container on one node, or says why not.
//   - [Devices.Score] says how little a placement strands.
//   - [Ledger] counts the usage of all nodes from the pods' annotations.
//   - [Devices.Schedule] and [Ledger.Schedule] put these together the way HAMi's
//     scheduler does.
//
// Units: memory is in MiB, compute in compute units (CUs), and only a request
// is in percent. Both are int32, as in HAMi's types and on the wire.
//
// The package talks to no cluster, reads no files and logs nothing: what it
// noticed is in its results. A Devices and a Ledger may be used from many
// goroutines at once. Only Admit changes an object it is given.
package amd
