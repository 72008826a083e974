// Package plugin is the kubelet device plugin for AMD GPUs that HAMi shares.
package plugin
