package inspect

// kind is what is the same of all problems of a code.
type kind struct {
	severity Severity
	remedy   string
}

// Remedies that several kinds share.
const (
	recreate = "delete the pod, so that it is admitted, placed and served anew: kubectl -n {namespace} delete pod {pod}"
	rewrite  = "restart the device plugin on {node}: it puts the annotations of running pods back from its own file; if that does not help, " + recreate
	unlock   = "kubectl annotate node {node} hami.io/mutex.lock-"
	atPlugin = "look at the device plugin on {node} (its log, and whether it runs)"
)

// kinds are all kinds of problems.
var kinds = map[Code]kind{
	RegisterUnreadable:     {Error, "restart the device plugin on {node}, which writes hami.io/node-amd-register anew; if it comes back, something else writes it"},
	AnnotationsLarge:       {Warning, "remove annotations of {node} that nobody needs: beyond 262144 bytes in all no update of the node is accepted"},
	NotOffered:             {Error, atPlugin + "; HAMi places no pod there until kubelet offers amd.com/gpu again, as it does a moment after the plugin was restarted"},
	NotRegistered:          {Warning, "run this module's device plugin on {node} if HAMi is to place pods there; on a node without HAMi nothing is wrong"},
	CapacityDiffers:        {Warning, "look again in a minute, since kubelet and plugin publish at different moments; if it stays, restart the device plugin on {node} and make sure it is the only one for amd.com/gpu"},
	OperatingModeInvalid:   {Warning, `set hami.io/amd-operating-mode of {node} to "cu" or "partition", or remove it: the plugin ignores any other value`},
	OperatingModeDiffers:   {Warning, "restart the device plugin on {node}, which reads hami.io/amd-operating-mode at its start, or set the annotation to the mode the node is in"},
	ComputePartitionBad:    {Warning, "set hami.io/amd-compute-partition of {node} to spx, dpx, tpx, qpx or cpx, or remove it: the plugin ignores any other value"},
	ComputePartitionUnused: {Warning, "drain {node} and restart its device plugin, which switches idle GPUs at its start and in partition mode only, or remove hami.io/amd-compute-partition"},
	CordonUnreadable:       {Error, "shorten hami.io/device-cordon of {node}: HAMi places no pod there while it cannot be read"},
	CordonUnknownDevice:    {Warning, "correct the id in hami.io/device-cordon of {node}: as it is, the device that was meant still gets pods"},

	LockMalformed:      {Error, "no pod can be bound there until it is removed: " + unlock},
	LockWithoutOwner:   {Warning, "the next pod bound there takes it over; at once: " + unlock},
	LockOwnerGone:      {Warning, "the next pod bound there takes it over; at once: " + unlock},
	LockOwnerFinished:  {Warning, "this module's scheduler takes it over, HAMi's own only after its timeout; at once: " + unlock},
	LockOwnerElsewhere: {Error, "no pod can be served on {node} while its lock names a pod of another node: " + unlock},
	LockLeft:           {Warning, "the device plugin releases it if it runs; at once, once no pod is being bound to {node}: " + unlock},
	LockStuck:          {Error, atPlugin + " and the pod's events; " + recreate + "; the lock goes with it"},

	DeviceUnusable:  {Warning, "compare with amdctl discover on {node}; restart its device plugin once the GPU shows what it should"},
	DuplicateDevice: {Warning, "HAMi's metrics look devices up by id over all nodes; cloned VMs may share a serial number: exclude the device on one of the nodes"},
	UnhealthyInUse:  {Warning, "move the pods away: kubectl cordon {node}, then delete them; " + atPlugin + " for why the device is unhealthy"},
	WholeShared:     {Error, "delete one of the pods: a whole GPU has neither mask nor memory limit"},
	SharesExceeded:  {Error, "delete one of the pods; if the shares of the node were lowered, that is why"},
	MemoryExceeded:  {Error, "delete one of the pods, or their allocations will fail once the memory is used; if the memory scaling of the node was lowered, that is why"},
	CUsExceeded:     {Error, "delete one of the pods: the device plugin cannot serve all of them"},
	MaskOverlap:     {Error, "delete one of the two pods, so that it gets CUs of its own; until then they slow each other down"},

	RequestInvalid:       {Error, "correct the resources in the pod's template; HAMi's webhook refuses such a pod, so look why it was not asked (failurePolicy, label hami.io/webhook=ignore)"},
	SidecarRequest:       {Warning, "ask for the GPU in an app container: HAMi v2.10 counts a sidecar as if it ended before the others start"},
	PrivilegedTenant:     {Error, "take privileged off the container: it can open every GPU of the node past mask and memory limit"},
	EnvOverride:          {Error, "take the variable out of the pod's template: the device plugin sets it, and the container's own value wins and lifts the limits"},
	HookReplaced:         {Warning, "add the memory hook to the container's LD_AUDIT, separated by a colon: without it only dmem, if the node has it, limits its memory"},
	AnnotationsForged:    {Error, "remove the annotation: only scheduler and device plugin write it; or " + recreate},
	NotGranted:           {Error, "let HAMi's scheduler place the pod (schedulerName, no nodeName, no label hami.io/webhook=ignore) and " + recreate},
	GrantsUnreadable:     {Error, "the pod counts nowhere, so its GPU may be granted again: " + recreate},
	GrantsMismatch:       {Error, "the pod counts nowhere, so its GPU may be granted again: " + recreate},
	ToAllocateUnreadable: {Error, "if the pod has not started, the device plugin cannot serve it: " + recreate},
	ToAllocateDiffers:    {Error, "the device plugin cannot serve it: " + recreate},
	ToAllocateLeft:       {Warning, "nothing waits for it, but some versions count it: " + rewrite},
	NodeDiffers:          {Error, "the scheduler's books may have the pod on another node, or on none: " + recreate},
	LabelDiffers:         {Warning, "HAMi's monitor finds pods by this label: kubectl -n {namespace} label --overwrite pod {pod} hami.io/vgpu-node={node}"},
	NodeGone:             {Error, "kubectl -n {namespace} delete pod {pod} --grace-period=0 --force, unless the node comes back"},
	NodeNotRegistered:    {Error, atPlugin + "; the pod keeps running, but nobody counts what it holds"},
	GrantsUnbound:        {Warning, "its GPU is booked although it does not run: see the pod's events for why it is not bound; " + recreate},
	BindStuck:            {Error, atPlugin + ", whether kubelet runs, and the pod's events; then " + recreate},
	BindFailed:           {Error, "see the pod's events for why the device plugin refused it; " + recreate},
	BindPhaseInvalid:     {Warning, rewrite},
	BindPhaseLeft:        {Warning, "nothing waits for it: kubectl -n {namespace} annotate --overwrite pod {pod} hami.io/bind-phase=success"},
	CUsUnreadable:        {Error, rewrite},
	MaskWithoutGrant:     {Error, rewrite},
	KubeletIDsShared:     {Error, rewrite},
	ContainersOverlap:    {Error, rewrite},
	ContainersDisagree:   {Error, rewrite},

	UnknownDevice:        {Error, "the GPU is gone, excluded or in another partition mode since: drain {node} before such a change; " + recreate},
	GrantTooLarge:        {Error, "the device plugin refuses it: " + recreate},
	GrantDiffers:         {Error, "somebody edited the grant, or the scheduler counts otherwise than this configuration (--config): " + recreate},
	GrantWithoutMemory:   {Error, "the device plugin refuses it, since a limit of 0 would be none: " + recreate},
	GrantNotWholeUnits:   {Warning, "run this module's scheduler, which knows the unit; the device plugin raises the grant if so many CUs are free and refuses it otherwise"},
	PartitionGrantPartly: {Warning, "run this module's scheduler, which grants partitions whole; the container has the whole partition, the books have less"},
	UnlimitedTenant:      {Error, "it can run on every CU of the GPU: " + recreate},
	MaskBeyondDevice:     {Error, rewrite},
	MaskSizeDiffers:      {Error, rewrite},
	MaskStarvesXCC:       {Error, "kernels of the pod hang: " + recreate},
	MaskHalfWGP:          {Error, "the kernel refuses the mask and the pod runs on all CUs: " + recreate},

	TooMany: {Warning, "mend the others first"},
}
