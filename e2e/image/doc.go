// Package image holds the tests of hook and hook/image on real parts: Debian's
// containerd on a root, state and socket of its own, images built from Debian's
// own files, and the dynamic loaders themselves.
//
// They need root and the packages containerd, busybox-static, gcc, libc6-dev
// and musl. A part that is missing fails them.
package image
