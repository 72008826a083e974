// Package cumask shares a GPU's compute units (CUs): sets of CUs, the shape of
// a GPU, masks that are as good as the silicon allows, who holds what, and the
// grammar in which ROCm reads masks.
//
// # Why the choice matters
//
// The CUs of an MI300X sit on 8 XCCs, and the kernel deals the bits of a queue's
// mask out over them in turn: bit i is on XCC i mod 8, then over the shader
// engines of an XCC, then up the CUs ([Geometry.Locate]). Work groups go
// round-robin over the XCCs. So a mask is worth 8 times the CUs it has on its
// poorest XCC (its effective CUs, [Spread]), and one that has none on some XCC
// hangs the queue. On RDNA CUs work in pairs, WGPs; a mask with half a WGP is
// refused by the kernel and the queue runs on all CUs.
//
//	mask bit  0 1 2 3 4 5 6 7   8 9 10 11 12 13 14 15   ...   72 73 74 75
//	XCC       0 1 2 3 4 5 6 7   0 1  2  3  4  5  6  7          0  1  2  3
//
//	0-75           76 CUs, 10 on XCCs 0 to 3 and 9 on the others: 72 effective
//	0-6             7 CUs, none on XCC 7: hangs
//	0,8,16,24,...  38 CUs, all on XCC 0: hangs
//
// [Pack] and [PackAll] always reach the most effective CUs that the free CUs
// allow, with exactly the CUs asked for, one at least on every XCC and whole
// WGPs, or refuse. Pack takes about a microsecond and does not allocate.
//
// # Use
//
//	mi300x := cumask.Geometry{CUs: 304, XCCs: 8}
//	n, err := cumask.RoundPlain.CUs(mi300x, 25, shares)       // 25 % is 76 CUs
//	cus, err := cumask.Pack(mi300x, occupancy.Used(), n)      // 0-75 of an idle GPU
//	err = occupancy.Add("namespace/pod", cus)
//	mask, err := cumask.FormatHSAMask([]cumask.DeviceMask{{Device: 0, CUs: cus}})
//	// HSA_CU_MASK=0:0-75
//
// The package holds no state, knows no devices and reads no files. The upper
// bound of an ID list is a device's, so [Geometry.Check] tells whether a set
// can be on it, not [ParseSet]. Package draw paints what is held, package
// simulate compares packing policies over time.
//
// Sources: the kernel's amdkfd/kfd_mqd_manager.c (how bits are dealt out),
// kfd_process_queue_manager.c (pairs) and kfd_chardev.c (1,024 bits); ROCr's
// flag.cpp (HSA_CU_MASK).
package cumask
