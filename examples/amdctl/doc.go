// Command amdctl looks at AMD GPUs shared under HAMi from the command line:
// what a node would register, what an annotation means, which compute units a
// slice would get, where a pod would be scheduled and what its containers
// would be handed. It reads files and sysfs and needs no cluster.
//
// Answers go to standard output, notes and skipped devices to standard error.
// Bad input ends with one line and exit code 1.
package main
