// Package dmemtest has a cgroup v2 tree with a dmem controller for machines
// whose kernel has none.
//
// A [Kernel] keeps a directory of plain files that look like /sys/fs/cgroup
// and takes the writes to them itself, because plain files cannot do what the
// kernel does: refuse a limit below the usage or quietly keep the old one,
// refuse an unknown region, refuse +dmem in a cgroup with processes, make the
// controller's files appear in the children of a cgroup that enables it, or
// crash. It is the file system of a dmem.Tree:
//
//	k, err := dmemtest.New(t.TempDir(), dmemtest.Options{})
//	tree := dmem.New(k)
//
// Anything that reads the directory itself, such as a monitor in another
// process, sees current numbers. Anything that writes to it directly gets
// plain files: a write replaces the content, whatever it is, and nothing is
// enforced.
//
// The behaviour is that of kernel/cgroup/dmem.c and kernel/cgroup/cgroup.c in
// its known versions, chosen with [Options].
package dmemtest
