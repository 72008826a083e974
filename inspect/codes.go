package inspect

import (
	"slices"
	"strings"
)

// A Code names a kind of problem. The names do not change.
type Code string

// Problems of a node.
const (
	RegisterUnreadable     Code = "RegisterUnreadable"     // hami.io/node-amd-register is no device list
	AnnotationsLarge       Code = "AnnotationsLarge"       // the node's annotations come near Kubernetes' limit
	NotOffered             Code = "NotOffered"             // healthy GPUs are registered, kubelet offers none
	NotRegistered          Code = "NotRegistered"          // kubelet offers GPUs, none is registered
	CapacityDiffers        Code = "CapacityDiffers"        // kubelet offers another number of shares than is registered
	OperatingModeInvalid   Code = "OperatingModeInvalid"   // hami.io/amd-operating-mode is no mode
	OperatingModeDiffers   Code = "OperatingModeDiffers"   // ... is not the mode the GPUs are registered in
	ComputePartitionBad    Code = "ComputePartitionBad"    // hami.io/amd-compute-partition is no partition type
	ComputePartitionUnused Code = "ComputePartitionUnused" // ... is not what the GPUs are in
	CordonUnreadable       Code = "CordonUnreadable"       // hami.io/device-cordon is too long
	CordonUnknownDevice    Code = "CordonUnknownDevice"    // ... names a device nobody registers
)

// Problems of the node lock.
const (
	LockMalformed      Code = "LockMalformed"      // nobody can read it, so nobody takes it
	LockWithoutOwner   Code = "LockWithoutOwner"   // the old format, older than the timeout
	LockOwnerGone      Code = "LockOwnerGone"      // there is no such pod
	LockOwnerFinished  Code = "LockOwnerFinished"  // the pod has succeeded or failed
	LockOwnerElsewhere Code = "LockOwnerElsewhere" // the pod is bound to another node
	LockLeft           Code = "LockLeft"           // the pod waits for nothing and the lock is still there
	LockStuck          Code = "LockStuck"          // the pod has waited for its devices for longer than the timeout
)

// Problems of a registered device.
const (
	DeviceUnusable  Code = "DeviceUnusable"  // nobody can get it as it is registered
	DeviceUnhealthy Code = "DeviceUnhealthy" // the node calls an idle device unhealthy
	DuplicateDevice Code = "DuplicateDevice" // two nodes register one id
	UnhealthyInUse  Code = "UnhealthyInUse"  // pods hold a device the node calls unhealthy
	WholeShared     Code = "WholeShared"     // a whole device is granted twice
	SharesExceeded  Code = "SharesExceeded"  // more containers than its count
	MemoryExceeded  Code = "MemoryExceeded"  // more MiB granted than it has
	CUsExceeded     Code = "CUsExceeded"     // more CUs granted than it has
	MaskOverlap     Code = "MaskOverlap"     // two pods have one CU
)

// Problems of a pod.
const (
	RequestInvalid       Code = "RequestInvalid"       // resources no node can grant
	RequestUnknown       Code = "RequestUnknown"       // a resource that is none of HAMi's and that no node offers
	SidecarRequest       Code = "SidecarRequest"       // a sidecar asks for GPUs
	PrivilegedTenant     Code = "PrivilegedTenant"     // a privileged container sees all GPUs
	EnvOverride          Code = "EnvOverride"          // the spec's own variable lifts the limits
	HookReplaced         Code = "HookReplaced"         // the spec's LD_AUDIT leaves the memory hook out
	AnnotationsForged    Code = "AnnotationsForged"    // protocol annotations nobody but a user can have written
	NotGranted           Code = "NotGranted"           // bound and asking, but HAMi granted nothing
	GrantsUnreadable     Code = "GrantsUnreadable"     // hami.io/amd-devices-allocated
	GrantsMismatch       Code = "GrantsMismatch"       // grants do not match the containers that ask
	ToAllocateUnreadable Code = "ToAllocateUnreadable" // hami.io/amd-devices-to-allocate
	ToAllocateDiffers    Code = "ToAllocateDiffers"    // what is left to serve was never granted
	ToAllocateLeft       Code = "ToAllocateLeft"       // the pod runs and something is left to serve
	NodeDiffers          Code = "NodeDiffers"          // bound to another node than HAMi chose
	LabelDiffers         Code = "LabelDiffers"         // the label hami.io/vgpu-node is not the annotation
	NodeGone             Code = "NodeGone"             // bound to a node that is not there
	NodeNotRegistered    Code = "NodeNotRegistered"    // holds GPUs of a node that registers none
	GrantsUnbound        Code = "GrantsUnbound"        // chosen long ago and never bound
	BindStuck            Code = "BindStuck"            // bound and not served for too long
	BindFailed           Code = "BindFailed"           // marked as failed and still alive
	BindPhaseInvalid     Code = "BindPhaseInvalid"     // hami.io/bind-phase is no phase
	BindPhaseLeft        Code = "BindPhaseLeft"        // served and running, the phase still says allocating
	CUsUnreadable        Code = "CUsUnreadable"        // hami.io/amd-cu-allocated or amd-cu-containers
	MaskWithoutGrant     Code = "MaskWithoutGrant"     // CUs of a device that was not granted
	KubeletIDsShared     Code = "KubeletIDsShared"     // another pod was given the same kubelet device ID
	ContainersOverlap    Code = "ContainersOverlap"    // two containers of the pod have one CU
	ContainersDisagree   Code = "ContainersDisagree"   // amd-cu-containers and amd-cu-allocated
)

// Problems of what one container holds of one device.
const (
	UnknownDevice        Code = "UnknownDevice"        // the node does not register the device
	GrantTooLarge        Code = "GrantTooLarge"        // more than the device has
	GrantDiffers         Code = "GrantDiffers"         // another size than the container asks for
	GrantWithoutMemory   Code = "GrantWithoutMemory"   // a slice of 0 MiB
	GrantNotWholeUnits   Code = "GrantNotWholeUnits"   // CUs the device cannot be cut into
	PartitionGrantPartly Code = "PartitionGrantPartly" // a partition granted as if it were a slice
	UnlimitedTenant      Code = "UnlimitedTenant"      // runs without a mask
	MaskBeyondDevice     Code = "MaskBeyondDevice"     // CUs the device does not have
	MaskSizeDiffers      Code = "MaskSizeDiffers"      // another number of CUs than granted
	MaskStarvesXCC       Code = "MaskStarvesXCC"       // an XCC without a CU
	MaskHalfWGP          Code = "MaskHalfWGP"          // one CU of a pair
)

// TooMany stands for the problems of one object beyond the first few.
const TooMany Code = "TooMany"

// Codes are all kinds of problems, in alphabetical order.
func Codes() []Code {
	codes := make([]Code, 0, len(kinds))
	for code := range kinds {
		codes = append(codes, code)
	}
	slices.Sort(codes)
	return codes
}

// Severity is how bad a problem of this kind is.
func (c Code) Severity() Severity { return kinds[c].severity }

// Meaning is what a problem of this kind is, in one line.
func (c Code) Meaning() string { return kinds[c].meaning }

// Remedy is what to do about a problem of this kind, with NODE, NAMESPACE, POD
// and GPU for the names.
func (c Code) Remedy() string { return fill(c.remedy(), Problem{}) }

func (c Code) remedy() string { return kinds[c].remedy }

// fill puts the names of a problem into a remedy. What is no name that
// Kubernetes allows could be anything once it is pasted into a shell.
func fill(remedy string, p Problem) string {
	if !strings.Contains(remedy, "{") {
		return remedy
	}
	or := func(name, placeholder string) string {
		if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" || name[0] == '-' || len(name) > 253 {
			return placeholder
		}
		return name
	}
	return strings.NewReplacer(
		"{node}", or(p.Node, "NODE"), "{namespace}", or(p.Namespace, "NAMESPACE"), "{pod}", or(p.Pod, "POD"), "{gpu}", or(p.GPU, "GPU"),
	).Replace(remedy)
}
