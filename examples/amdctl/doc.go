// Command amdctl looks at AMD GPUs shared under HAMi from the command line:
// what a node would register, what an annotation means, which compute units a
// slice would get, where a pod would be scheduled and what its containers
// would be handed; and of a whole cluster what is inconsistent and why a pod is
// pending. It reads files and sysfs, and a live cluster through kubectl. Under
// the name kubectl-amd it is kubectl's subcommand.
//
// Answers go to standard output, notes and skipped devices to standard error.
// Bad input ends with one line and exit code 1.
package main
