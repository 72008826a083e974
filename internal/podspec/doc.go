// Package podspec reads Kubernetes pods for package allocate, which knows no
// Kubernetes types: what an allocation depends on, and which CUs the pods of a
// node hold.
package podspec
