// Package annotations holds every wire format that the HAMi scheduler, the
// device plugin, the node and the pod exchange about AMD GPUs, and the decision
// about the node lock. It reads and writes strings only: no cluster, no files.
//
// What travels where:
//
//	node  hami.io/node-amd-register        EncodeDevices, DecodeDevices
//	node  hami.io/mutex.lock               NodeLock, ParseNodeLock, DecideLock, DecideRelease
//	node  hami.io/device-cordon            ParseCordon
//	pod   hami.io/amd-devices-to-allocate  EncodePod, DecodePod, PodGrants
//	pod   hami.io/amd-devices-allocated    EncodePod, DecodePod, PodGrants
//	pod   hami.io/amd-cu-allocated         EncodeCUs, DecodeCUs, RangeCUs
//	pod   hami.io/amd-cu-containers        EncodeContainerCUs, DecodeContainerCUs
//	pod   hami.io/bind-phase               BindPhase, ParseBindPhase
//	pod   hami.io/bind-time, vgpu-time     FormatTime, ParseTime
//	pod   hami.io/gpu-scheduler-policy     Policies
//	pod   hami.io/device-scoring-weights   ParseWeights
//
// Memory is counted in MiB and compute in compute units (CUs), both as int32,
// because that is what HAMi's own types hold. A percentage never appears here.
//
// # Strictness
//
// Whoever may edit a pod or patch a node can write these values, so every
// decoder is bounded (MaxBytes, and limits on elements and nesting), never
// panics, and answers either a value or an error that names the element and
// the field and quotes what was found, cut short. A number that cannot be read
// is an error and never 0. Encoders refuse what their decoder would refuse:
// separators inside a field, empty or repeated ids, negative numbers.
//
// The decoders cannot know how many CUs a device has: a CU list that reaches
// beyond the device is found by whoever knows the device.
//
// # Changing the format
//
// Both sides of a cluster are never upgraded at the same moment, so each change
// has to read what older versions wrote and write what older versions can read:
//
//   - A new fact about a device becomes a new member of custominfo. Readers keep
//     members they do not know (Device.Unknown, CustomInfo.Unknown) and write
//     them back. Its absence must mean what the world was before it existed.
//   - A member never changes its JSON type or unit. A custominfo member that has
//     another type than expected is kept as unknown, as if it were absent.
//   - The pod string has four fields in HAMi's order and cannot grow: HAMi v2.10
//     ignores a fifth field and this package refuses one. What does not fit goes
//     into a key of its own, as hami.io/amd-cu-containers did.
//   - hami.io/amd-cu-allocated stays the plain map from device to CU list which
//     other AMD plugins write, so that a node can change its plugin in place.
//   - A key is never given a second format. A new format gets a new key, and the
//     old key is written beside it for as long as an old reader may live.
package annotations
