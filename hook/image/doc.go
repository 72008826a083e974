// Package image tells which C library the entry point of a container image
// would be loaded with, and so whether the memory hook can work in it.
//
// The hook is loaded by glibc's dynamic loader. A program that musl loads, or
// that has no loader because it is linked statically, never sees it, and a
// glibc that is older than the hook's symbol versions refuses it; all of them
// run on without a limit. So the answer is looked up in the image, before the
// container starts, in the files that will decide it: the program's ELF
// interpreter and the symbol versions of that loader's libc.so.6.
//
// The package has two halves:
//
//   - [Analyze] is pure. It takes an image's files and command and touches
//     nothing else; images are hostile, so every read, link and count is
//     bounded. [Result.Verdict] compares what it found with what the hook
//     needs.
//   - [Checker] finds images on the node: through containerd's client
//     ([Containerd]) or, where its API cannot be spoken to, its ctr command
//     ([Ctr]). Results are kept by digest.
//
// What is found is about the program that kubelet starts. A shell may start
// programs of another C library, and a volume may hide what the image has;
// volumes that the caller names are taken into account, the rest is why the
// hook is called cooperative.
package image
